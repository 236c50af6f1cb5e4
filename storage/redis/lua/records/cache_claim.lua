#!lua flags=allow-oom
-- cache_claim.lua grants one process at a time the claim to make a cached value. It may run when Redis is out of
-- memory.
--
-- KEYS[1] value  string  the cached value
-- KEYS[2] load   string  token of the one that makes the value; "absent" if there is none
--
-- ARGV[1] token   string  of the caller
-- ARGV[2] ttl_ms  int     how long the claim lasts
-- ARGV[3] mode    string  fill: if there is neither a value nor a claim; refresh: if there is no claim; over: always
--
-- Returns {"OK"}, or {"STORED", value}, {"ABSENT", left_ms} or {"BUSY", left_ms} if the claim isn't granted.
-- Safe to run twice: yes, while the token has the claim it is granted again.
local value_key, load_key = KEYS[1], KEYS[2]
local token, ttl_ms, mode = ARGV[1], ARGV[2], ARGV[3]

local current = redis.call('GET', load_key)
if mode == 'over' then
  redis.call('DEL', value_key)
else
  local value = mode == 'fill' and redis.call('GET', value_key)
  if value then
    return {'STORED', value}
  end
  if current == 'absent' and mode == 'fill' then
    return {'ABSENT', redis.call('PTTL', load_key)}
  end
  if current and current ~= 'absent' and current ~= token then
    return {'BUSY', redis.call('PTTL', load_key)}
  end
end
redis.call('SET', load_key, token, 'PX', ttl_ms)
return {'OK'}
