#!lua
-- announce.lua records that a channel is going to have messages that must be copied, unless there are too many such
-- channels.
--
-- KEYS[1] pending  zset  channels by when a message was last announced, in ms
--
-- ARGV[1] channel  string  the channel
-- ARGV[2] most     int     channels at most, this one included
-- ARGV[3] topic    string  sharded pub/sub channel to notify
--
-- Returns {"OK"}, or {"FULL"} and nothing was changed.
-- Safe to run twice: yes.
local pending_key = KEYS[1]
local channel, most, topic = ARGV[1], tonumber(ARGV[2]), ARGV[3]

acl.require_publish(topic)
local _, now_ms = time.now()
if redis.call('ZCARD', pending_key) >= most and not redis.call('ZSCORE', pending_key, channel) then
  return {'FULL'}
end
redis.call('ZADD', pending_key, time.decimal(now_ms), channel)
redis.call('SPUBLISH', topic, channel)
return {'OK'}
