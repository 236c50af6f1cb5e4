-- sessions.lua reads and prolongs sessions. A session is valid while its key is there and the set of its user's sessions has
-- its ID: a session that is in no set could not be revoked with all others of its user.

-- define: FIELDS
local FIELDS = {'username', 'created_at', 'last_activity', 'device_info', 'auth_data'}

-- define: fields
-- uses: sessions.FIELDS
-- fields returns what a session's key has, '' for a field that it doesn't have, and when it ends, in milliseconds.
local function fields(key)
  local found = redis.call('HMGET', key, unpack(FIELDS))
  found[3] = found[3] or found[2]
  for i = 1, #FIELDS do
    found[i] = found[i] or ''
  end
  found[#FIELDS + 1] = redis.call('PEXPIRETIME', key)
  return found
end

-- define: renew
-- uses: time.decimal
-- renew makes a session live for ttl_ms from now on, and the set of its user's sessions for at least as long.
local function renew(key, sessions, now_ms, ttl_ms)
  redis.call('HSET', key, 'last_activity', decimal(math.floor(now_ms / 1000)))
  redis.call('PEXPIREAT', key, decimal(now_ms + ttl_ms))
  if redis.call('PEXPIRETIME', sessions) < now_ms + ttl_ms then
    redis.call('PEXPIREAT', sessions, decimal(now_ms + ttl_ms))
  end
end

-- define: here
-- uses: many.AT_ONCE slot.undeclared
-- here reads whether sessions are there, whose keys aren't declared: it fails if their slot is half moved and one hasn't come
-- yet or has gone. Then it could not be told from one that has ended.
local function here(sessions, base, ids)
  for first = 1, #ids, AT_ONCE do
    local keys = {sessions}
    for i = first, math.min(first + AT_ONCE - 1, #ids) do
      keys[#keys + 1] = base .. ids[i]
    end
    undeclared('EXISTS', unpack(keys))
  end
end

-- define: PRUNE
-- How many entries of a set are looked at when one is added: more than one, so that those of ended sessions don't add up.
local PRUNE = 8

-- define: make_room
-- uses: many.each sessions.PRUNE sessions.here
-- make_room removes entries of sessions that have ended from the set of a user's sessions: some of them, or all if there is no room
-- for another session. Then those that are idle for longest end, until there is room.
local function make_room(sessions, base, most)
  local count = redis.call('SCARD', sessions)
  local ids = count < most and redis.call('SRANDMEMBER', sessions, PRUNE) or redis.call('SMEMBERS', sessions)
  here(sessions, base, ids)
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
  each(gone, function(...)
    redis.call('SREM', sessions, ...)
  end)
end
