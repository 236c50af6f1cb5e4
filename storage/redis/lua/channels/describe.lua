#!lua flags=allow-oom
-- describe.lua describes a channel and one page of its subscribers. Names on the page whose mark is gone are dropped.
--
-- KEYS[1] clock  string  the last clock given out
-- KEYS[2] epoch  string  ULID of this life of the channel
-- KEYS[3] subs   set     names of subscribers
--
-- ARGV[1] message_prefix  string  what the channel's message keys start with
-- ARGV[2] mark_prefix     string  what the channel's mark keys start with
-- ARGV[3] max_messages    int     messages that the channel keeps at most; 0: no limit
-- ARGV[4] cursor          string  where the page begins: of the page before it, "0" for the first
-- ARGV[5] limit           int     subscribers on the page, about
--
-- Returns {"OK", life, clock, ttl_ms, steps, names, cursor, {name, mark, name, mark, …}} with the value of the epoch's
-- key, the steps from the clock back to the oldest message alive (-1 if there is none), the number of names in the
-- subs, and the cursor of the next page ("0" if there is none); {"NO_CHANNEL"}, or {"MOVING"} if the slot is half
-- moved.
-- Safe to run twice: yes.
local keys = {clock = KEYS[1], epoch = KEYS[2], subs = KEYS[3]}
local message_prefix, mark_prefix, max_messages = ARGV[1], ARGV[2], tonumber(ARGV[3])
local cursor, limit = ARGV[4], ARGV[5]

local clock, _, _, _, value = channel.position(keys.clock, keys.epoch)
if not clock then
  return {'NO_CHANNEL'}
end

local reach = max_messages > 0 and max_messages or clocks.MAX
local searched, steps = slot.try(messages.oldest, {prefix = message_prefix, here = keys.clock}, clock, reach)
local page = redis.call('SSCAN', keys.subs, cursor, 'COUNT', limit)
local listed, found = slot.try(subs.marks, keys, page[2], clock, mark_prefix)
if not searched or not listed then
  return {'MOVING'}
end
local names = redis.call('SCARD', keys.subs)
return {'OK', value, clocks.show(clock), redis.call('PTTL', keys.clock), steps or -1, names, page[1], found}
