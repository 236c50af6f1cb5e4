#!lua
-- prolong.lua extends the lives of backfills that have no tickets to assign, and reads them. It ends early when its
-- reply is large: the caller repeats the call with the others.
--
-- KEYS[1]   backfills      zset  IDs of backfills, by the ends of their lives, in milliseconds
-- KEYS[2…]  backfill_keys  hash  the backfills, at most 1,000
--
-- ARGV[1]  ttl_ms     int     their lives from now on
-- ARGV[2]  max_bytes  int     bytes of contents after which it ends
-- ARGV[3]  ids        string  of the backfills, in the order of their keys, each after a blank
--
-- Returns {"OK", {value, …}} with the values of at least the first backfill, one backfill after the other: "OK",
-- expires_ms, generation, created_us, content, persistent, "", and the ID of the match of the tickets that were last
-- assigned or ""; "TICKETS" and the IDs of tickets that may have to be assigned, each after a blank; "NO_BACKFILL"; or
-- "EXPIRED". Only OK changes anything.
-- Safe to run twice: yes.
local backfills_key, ttl_ms, max_bytes, ids = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), backfill.list(ARGV[3])

-- A call is expensive for Redis by its values: its arguments, its tables, and the tables in its reply.
local _, now_ms = time.now()
local ends, keep = time.decimal(now_ms + ttl_ms), backfill.keep(now_ms + ttl_ms)
local reply, n, bytes, scores, late = {}, 0, 0, {}, {}
for i, expires in ipairs(redis.call('ZMSCORE', backfills_key, unpack(ids))) do
  local fields = expires and redis.call('HMGET', KEYS[i + 1], 'generation', 'created', 'content', 'persistent',
    'tickets', 'match')
  if not fields or not fields[1] then
    reply[n + 1], n = 'NO_BACKFILL', n + 1
  elseif tonumber(expires) <= now_ms then
    reply[n + 1], n = 'EXPIRED', n + 1
  elseif fields[5] ~= '' then
    reply[n + 1], reply[n + 2], n = 'TICKETS', fields[5], n + 2
    bytes = bytes + #fields[5]
  else
    reply[n + 1], reply[n + 2] = 'OK', ends
    for at = 1, 6 do
      reply[n + 2 + at] = fields[at]
    end
    n, bytes = n + 8, bytes + #fields[3] + #fields[4]
    scores[#scores + 1] = ends
    scores[#scores + 1] = ids[i]
    if keep ~= backfill.keep(tonumber(expires)) then
      late[#late + 1] = KEYS[i + 1]
    end
  end
  if bytes >= max_bytes then
    break
  end
end
if #late > 0 then
  acl.require(backfills_key, 'ZADD', 'PEXPIREAT')
end
if #scores > 0 then
  redis.call('ZADD', backfills_key, 'XX', unpack(scores))
end
for _, key in ipairs(late) do
  redis.call('PEXPIREAT', key, time.decimal(keep))
end
if #late > 0 then
  time.prolong(now_ms, ttl_ms + time.DAY_MS, backfills_key)
end
return {'OK', reply}
