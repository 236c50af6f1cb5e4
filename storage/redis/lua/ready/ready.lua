#!lua
-- ready.lua checks that Redis lets scripts do what all scripts rest on: read the time, read a key that the call doesn't
-- declare, write a key, and publish a message.
--
-- KEYS[1] check  string  nonce of the last check
--
-- ARGV[1] topic   string  sharded pub/sub channel of the check
-- ARGV[2] nonce   ULID    of the check
-- ARGV[3] ttl_ms  int     life of the key
--
-- Returns {"OK"}.
-- Safe to run twice: yes.
local check_key = KEYS[1]
local topic, nonce, ttl_ms = ARGV[1], ARGV[2], ARGV[3]

redis.call('TIME')
local undeclared = redis.pcall('EXISTS', check_key .. '.undeclared')
-- In a slot that moves, such a key is "non local".
if type(undeclared) == 'table' and not string.find(undeclared.err, 'non local key', 1, true) then
  return redis.error_reply(undeclared.err)
end
redis.call('SET', check_key, nonce, 'PX', ttl_ms)
redis.call('SPUBLISH', topic, nonce)
return {'OK'}
