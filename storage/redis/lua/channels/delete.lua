#!lua flags=allow-oom
-- delete.lua removes a channel: messages and marks, some at a time, and with the last of them the channel itself. Then
-- it notifies waiting fetches and streams. Dedup records stay until their lives end: the clock of the channel's next
-- life continues after theirs. It may run when Redis is out of memory.
--
-- KEYS[1] clock  string  the last clock given out
-- KEYS[2] epoch  string  ULID of this life of the channel
-- KEYS[3] subs   set     names of subscribers
-- KEYS[4] label  string  text that the channel carries
--
-- ARGV[1] message_prefix  string  what the channel's message keys start with
-- ARGV[2] mark_prefix     string  what the channel's mark keys start with
-- ARGV[3] max_messages    int     messages that the channel keeps at most; 0: no limit
-- ARGV[4] ttl_ms          int     life of a message
-- ARGV[5] purged          string  the key of the purged clocks
-- ARGV[6] deleted         string  key of the clock at which the channel was deleted
-- ARGV[7] topic           string  sharded pub/sub channel of the notifications
-- ARGV[8] life            ULID    the life of the channel to delete; "": any, if its clock or its epoch is damaged
-- ARGV[9] producers       string  the key of the channel's producers
--
-- Returns {"OK"}, {"NO_CHANNEL"}, {"OTHER_LIFE"} if the channel is in another life, {"AGAIN"} if the call has to be
-- repeated, or {"MOVING"} if the slot is half moved.
-- Safe to run twice: yes.
local clock_key, epoch_key, subs_key, label_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local message_prefix, mark_prefix, max_messages = ARGV[1], ARGV[2], tonumber(ARGV[3])
local ttl_ms, purged_key, deleted_key, topic, life = tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local producers_key = ARGV[9]

local clock, damaged, epoch = channel.stored(clock_key, epoch_key)
if damaged then
  epoch = channel.NO_EPOCH
  clock = damaged == epoch_key and clocks.parse(redis.call('GET', clock_key))
end
if not damaged and not clock then
  return {'NO_CHANNEL'}
elseif life ~= (damaged and '' or epoch) then
  return {'OTHER_LIFE'}
end
-- In a half moved slot no command with a key that doesn't exist is answered: nothing is written there, since a later
-- command could fail.
local log = {prefix = message_prefix, here = clock_key, keeps = max_messages, purged = purged_key}
local ok, keys, left, value = slot.try(slot.read, 'EXISTS', clock_key, message_prefix)
if ok and clock then
  ok, keys, left, value = slot.try(messages.some, log, clock, clock)
else
  keys, left = {}, 0 -- nothing tells which messages there are: their lives end
end
if not ok then
  return {'MOVING'}
end
acl.require_publish(topic)
if #keys > 0 then
  messages.purge(purged_key, keys, value, ttl_ms)
end
if left > 0 or not channel.clear(subs_key, mark_prefix) then
  return {'AGAIN'}
end
if clock then
  local ends, now = channel.expiry(clock_key)
  ends = math.max(ends, now + ttl_ms, redis.call('PEXPIRETIME', deleted_key))
  redis.call('SET', deleted_key, clocks.show(clock), 'PXAT', clocks.show(ends))
end
redis.call('DEL', clock_key, epoch_key, label_key, purged_key, producers_key)
redis.call('SPUBLISH', topic, epoch .. ' ' .. clocks.show(clock or 0) .. ' #')
return {'OK'}
