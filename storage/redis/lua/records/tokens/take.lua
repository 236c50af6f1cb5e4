#!lua flags=allow-oom
-- take.lua takes a verification, or the state of an OAuth login, each of which can be taken once. It remains for some
-- time for a repeat of the attempt that took it, whose answer may have been lost. It may run when Redis is out of
-- memory.
--
-- KEYS[1] secret  hash  the verification or state
--
-- ARGV[1] attempt  string  names the attempt
-- ARGV[2] keep_ms  int     how long a repeat of the attempt finds it
--
-- Returns {"OK", field, value, …}, or {"NONE"} if it does not exist or another attempt took it.
-- Safe to run twice: yes, by the same attempt.
local secret_key = KEYS[1]
local attempt, keep_ms = ARGV[1], tonumber(ARGV[2])

local fields = redis.call('HGETALL', secret_key)
if #fields == 0 then
  return {'NONE'}
end
local taken_by = redis.call('HGET', secret_key, 'taken_by')
if taken_by and taken_by ~= attempt then
  return {'NONE'}
end
if not taken_by then
  redis.call('HSET', secret_key, 'taken_by', attempt)
  if redis.call('PTTL', secret_key) > keep_ms then
    redis.call('PEXPIRE', secret_key, time.decimal(keep_ms))
  end
end
return {'OK', unpack(fields)}
