#!lua flags=allow-oom
-- settle.lua removes a channel whose messages are copied, unless another message was announced meanwhile. It may run
-- when Redis is out of memory.
--
-- KEYS[1] pending  zset  channels by when a message was last announced, in ms
--
-- ARGV[1] channel  string  the channel
-- ARGV[2] at       string  when its last message had been announced, in ms
--
-- Returns {"OK", removed} with removed 0 or 1.
-- Safe to run twice: yes.
local pending_key = KEYS[1]
local channel, at = ARGV[1], tonumber(ARGV[2])

if tonumber(redis.call('ZSCORE', pending_key, channel) or -1) ~= at then
  return {'OK', 0}
end
return {'OK', redis.call('ZREM', pending_key, channel)}
