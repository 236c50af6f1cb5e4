#!lua
-- subscribe.lua creates a subscriber, and its channel if it does not exist. It never moves an existing mark.
--
-- KEYS[1] clock  string  the last clock given out
-- KEYS[2] epoch  string  ULID of this life of the channel
-- KEYS[3] mark   string  the subscriber's mark
-- KEYS[4] subs   set     names of subscribers
--
-- ARGV[1]  subscriber       string  its name
-- ARGV[2]  from             string  where its mark is: "latest", "earliest" or a clock
-- ARGV[3]  message_prefix   string  what the channel's message keys start with
-- ARGV[4]  mark_prefix      string  what the channel's mark keys start with
-- ARGV[5]  ttl_ms           int     life of the channel and the mark without activity
-- ARGV[6]  create           int     1: a subscriber that does not exist is created; 0: it is not
-- ARGV[7]  new_epoch        ULID    epoch of the life to begin if the channel does not exist; "": none is begun
-- ARGV[8]  max_messages     int     messages that the channel keeps at most; 0: no limit
-- ARGV[9]  max_subscribers  int     subscribers that the channel has at most; 0: no limit
-- ARGV[10] deleted          string  key of the clock at which the channel was deleted
--
-- Returns {"BEGUN", epoch, mark} if the channel was created too, {"CREATED", epoch, mark}, {"EXISTS", epoch, mark},
-- {"NO_CHANNEL"}, {"NO_SUBSCRIBER"}, {"FULL"}, {"AHEAD"} if from is ahead of the clock, {"MOVING"} if the slot is half
-- moved, or {"AGAIN"} if marks of an earlier life remain to be removed: then nothing else was written.
-- Safe to run twice: yes, the second run finds the mark.
local keys = {clock = KEYS[1], epoch = KEYS[2], mark = KEYS[3], subs = KEYS[4]}
local subscriber, from, message_prefix, mark_prefix = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ttl_ms, create, new_epoch = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local max_messages, max_subscribers = tonumber(ARGV[8]), tonumber(ARGV[9])
local deleted_key = ARGV[10]

local clock, epoch, mark, properties, value = channel.position(keys.clock, keys.epoch, keys.mark)
local life_ms = channel.ttl(properties, ttl_ms)
local begins = not clock
clock = clock or channel.deleted(deleted_key) or 0

if mark then
  if redis.call('SADD', keys.subs, subscriber) == 1 then -- the predecessor stores no names
    local ends = math.max(redis.call('PEXPIRETIME', keys.clock), redis.call('PEXPIRETIME', keys.epoch))
    redis.call('PEXPIREAT', keys.subs, ends)
  end
  redis.call('PEXPIREAT', keys.mark, channel.extend_mark(keys, properties, life_ms))
  return {'EXISTS', epoch, clocks.show(mark)}
end
if new_epoch == '' and (begins or epoch == channel.NO_EPOCH) then
  return {'NO_CHANNEL'}
elseif create == '0' then
  return {'NO_SUBSCRIBER'}
elseif not begins and max_subscribers > 0 and subs.full(keys, clock, mark_prefix, max_subscribers) then
  return {'FULL'}
end

local log, ok = {prefix = message_prefix, here = keys.clock, keeps = max_messages}, nil
ok, mark = slot.try(messages.beginning, log, from, clock)
if not ok then
  return {'MOVING'}
elseif not clocks.behind(mark, clock) then
  return {'AHEAD'}
end

local had, now = channel.expiry(keys.clock)
local ends = channel.ending(properties, now + life_ms)
local life = clocks.show(math.max(ends, had))
if begins and not channel.clear(keys.subs, mark_prefix) then
  return {'AGAIN'}
end
if begins or epoch == channel.NO_EPOCH then
  epoch, value = new_epoch, new_epoch
end
redis.call('SET', keys.clock, clocks.show(clock), 'PXAT', life)
redis.call('SET', keys.epoch, value, 'PXAT', life)
redis.call('SET', keys.mark, clocks.show(mark), 'PXAT', clocks.show(ends))
redis.call('SADD', keys.subs, subscriber)
redis.call('PEXPIREAT', keys.subs, life)
channel.extend_producers(keys.clock, properties, life)
subs.prune(keys, clock, mark_prefix)
return begins and {'BEGUN', epoch, clocks.show(mark)} or {'CREATED', epoch, clocks.show(mark)}
