#!lua flags=allow-oom
-- seek.lua sets the mark of a subscriber, never before the oldest message alive, and notifies its waiting fetches and
-- streams. It may run when Redis is out of memory.
--
-- KEYS[1] clock  string  the last clock given out
-- KEYS[2] epoch  string  ULID of this life of the channel
-- KEYS[3] mark   string  the subscriber's mark
-- KEYS[4] subs   set     names of subscribers
--
-- ARGV[1] to              string  "latest", "earliest", a clock, or "@" and a time in milliseconds
-- ARGV[2] message_prefix  string  what the channel's message keys start with
-- ARGV[3] max_messages    int     messages that the channel keeps at most; 0: no limit
-- ARGV[4] ttl_ms          int     life of the channel and the mark without activity
-- ARGV[5] subscriber      string  its name
-- ARGV[6] topic           string  sharded pub/sub channel of the notifications
--
-- Returns {"OK", epoch, mark, clock}, {"NO_SUBSCRIBER"}, {"AHEAD"} if the clock is ahead of the channel's, or
-- {"MOVING"} if the slot is half moved.
-- Safe to run twice: yes. With "latest" the second run also skips what was published since.
local keys = {clock = KEYS[1], epoch = KEYS[2], mark = KEYS[3], subs = KEYS[4]}
local to, message_prefix, max_messages, ttl_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local subscriber, topic = ARGV[5], ARGV[6]

local clock, epoch, mark, properties = channel.position(keys.clock, keys.epoch, keys.mark)
if not mark then
  return {'NO_SUBSCRIBER'}
elseif tonumber(to) and not clocks.behind(tonumber(to), clock) then
  return {'AHEAD'}
end
local log = {prefix = message_prefix, here = keys.clock, keeps = max_messages}
local ok, earliest = slot.try(messages.earliest, log, clock)
local time_ms = tonumber(string.match(to, '^@(%d+)$'))
if ok and time_ms then
  ok, mark = slot.try(messages.since, log, earliest, clock, time_ms)
end
if not ok then
  return {'MOVING'}
elseif to == 'latest' then
  mark = clock
elseif to == 'earliest' or tonumber(to) and clocks.behind(tonumber(to), earliest) then
  mark = earliest
elseif not time_ms then
  mark = tonumber(to)
end
acl.require_publish(topic)
local ends = channel.extend_mark(keys, properties, channel.ttl(properties, ttl_ms))
redis.call('SET', keys.mark, clocks.show(mark), 'PXAT', ends)
redis.call('SPUBLISH', topic, epoch .. ' ' .. clocks.show(clock) .. ' @' .. subscriber)
return {'OK', epoch, clocks.show(mark), clocks.show(clock)}
