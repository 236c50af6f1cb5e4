#!lua flags=allow-oom
-- unsubscribe.lua removes a subscriber and notifies its waiting fetches. It may run when Redis is out of memory.
--
-- KEYS[1] clock  string  the last clock given out
-- KEYS[2] epoch  string  ULID of this life of the channel
-- KEYS[3] mark   string  the subscriber's mark
-- KEYS[4] subs   set     names of subscribers
--
-- ARGV[1] subscriber  string  its name
-- ARGV[2] topic       string  sharded pub/sub channel of the notifications
-- ARGV[3] last        string  epoch: in a later life of the channel nothing is removed; or ""
--
-- Returns {"OK"} if it was there, {"NO_SUBSCRIBER"} otherwise, and in a later life.
-- Safe to run twice: yes.
local clock_key, epoch_key, mark_key, subs_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local subscriber, topic, last = ARGV[1], ARGV[2], ARGV[3]

local clock, epoch = channel.position(clock_key, epoch_key)
if last ~= '' and epoch and epoch > last then
  return {'NO_SUBSCRIBER'}
end
redis.call('SREM', subs_key, subscriber)
if redis.call('DEL', mark_key) == 0 then
  return {'NO_SUBSCRIBER'}
end
redis.call('SPUBLISH', topic, epoch .. ' ' .. clocks.show(clock or 0) .. ' !' .. subscriber)
return {'OK'}
