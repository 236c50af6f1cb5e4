-- sessions.lua reads and prolongs sessions. A session is valid while its key exists and the set of its user's sessions
-- has its ID: a session that isn't in the set could not be revoked with all others of its user.

local sessions = {}

sessions.FIELDS = {'username', 'created_at', 'last_activity', 'device_info', 'auth_data'}

-- fields returns the fields of a session, '' for missing ones, and when it expires, in milliseconds.
function sessions.fields(key)
  local found = redis.call('HMGET', key, unpack(sessions.FIELDS))
  found[3] = found[3] or found[2]
  for i = 1, #sessions.FIELDS do
    found[i] = found[i] or ''
  end
  found[#sessions.FIELDS + 1] = redis.call('PEXPIRETIME', key)
  return found
end

-- renew extends a session's life to ttl_ms from now, and that of the set of its user's sessions to at least as long.
function sessions.renew(key, sessions_key, now_ms, ttl_ms)
  redis.call('HSET', key, 'last_activity', time.decimal(math.floor(now_ms / 1000)))
  redis.call('PEXPIREAT', key, time.decimal(now_ms + ttl_ms))
  if redis.call('PEXPIRETIME', sessions_key) < now_ms + ttl_ms then
    redis.call('PEXPIREAT', sessions_key, time.decimal(now_ms + ttl_ms))
  end
end

-- probe checks that the undeclared keys of sessions can be accessed: it fails if their slot is half moved and one isn't
-- on this node. Such a session could not be distinguished from one that has ended.
function sessions.probe(sessions_key, base, ids)
  for first = 1, #ids, batch.SIZE do
    local keys = {sessions_key}
    for i = first, math.min(first + batch.SIZE - 1, #ids) do
      keys[#keys + 1] = base .. ids[i]
    end
    slot.read('EXISTS', unpack(keys))
  end
end

-- The number of entries of a set that are checked when one is added: more than one, so that those of ended sessions
-- don't add up.
sessions.PRUNE = 8

-- make_room removes entries of sessions that have ended from the set of a user's sessions: some of them, or all if
-- there is no room for another session. Then it ends those that were idle longest, until there is room.
function sessions.make_room(sessions_key, base, most)
  local count = redis.call('SCARD', sessions_key)
  local ids = count < most and redis.call('SRANDMEMBER', sessions_key, sessions.PRUNE)
    or redis.call('SMEMBERS', sessions_key)
  sessions.probe(sessions_key, base, ids)
  local gone, alive = {}, {}
  for _, id in ipairs(ids) do
    local active = redis.call('HGET', base .. id, 'last_activity')
    if active then
      alive[#alive + 1] = {id, tonumber(active) or 0}
    else
      gone[#gone + 1] = id
    end
  end
  if count - #gone >= most then
    table.sort(alive, function(a, b) return a[2] < b[2] end)
    for i = 1, count - #gone - most + 1 do
      redis.call('DEL', base .. alive[i][1])
      gone[#gone + 1] = alive[i][1]
    end
  end
  batch.each(gone, function(...)
    redis.call('SREM', sessions_key, ...)
  end)
end
