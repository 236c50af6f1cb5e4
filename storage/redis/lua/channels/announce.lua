#!lua
-- announce.lua announces the configuration of a server to the other servers on this Redis, and reads theirs.
--
-- KEYS[1] configurations  hash  by the server's ULID: when its announcement ends in milliseconds, and a configuration
--
-- ARGV[1] server         ULID    the caller
-- ARGV[2] configuration  string  the caller's
-- ARGV[3] life_ms        int     how long the announcement lasts; 0: it is withdrawn
--
-- Returns {"OK", configurations, ends_ms, now_ms}: those of the other servers, and in the same order when their
-- announcements end, and the time in milliseconds.
-- Safe to run twice: yes.
local configurations_key = KEYS[1]
local server, configuration, life_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

local _, now_ms = time.now()
local found, others, ends = redis.call('HGETALL', configurations_key), {}, {}
for i = 1, #found, 2 do
  local ends_ms, announced = string.match(found[i + 1], '^(%d+) (.*)$')
  if found[i] ~= server and ends_ms and tonumber(ends_ms) > now_ms then
    others[#others + 1], ends[#ends + 1] = announced, ends_ms
  else
    redis.call('HDEL', configurations_key, found[i])
  end
end
if life_ms > 0 then
  redis.call('HSET', configurations_key, server, time.decimal(now_ms + life_ms) .. ' ' .. configuration)
  if redis.call('PTTL', configurations_key) < life_ms then
    redis.call('PEXPIRE', configurations_key, time.decimal(life_ms))
  end
end
return {'OK', others, ends, time.decimal(now_ms)}
