-- fetch.lua reads what stands after a subscriber's mark, and renews the life of the channel and the mark. It has no
-- #! line: Redis then refuses single commands rather than the script, so that reading goes on where memory is full,
-- and until a renewal is due also where nothing may be written.
-- include: clock.lua life.lua slot.lua gap.lua read.lua
--
-- KEYS[1] clock  string  the last clock given out
-- KEYS[2] epoch  string  ULID of this life of the channel
-- KEYS[3] mark   string  the subscriber's mark
-- KEYS[4] subs   set     names of subscribers
--
-- ARGV[1] message_prefix  string  what the channel's message keys start with
-- ARGV[2] ttl_ms          int     life of the channel and the mark without activity
-- ARGV[3] max             int     messages at most
-- ARGV[4] max_bytes       int     bytes of messages at most, but always one message
-- ARGV[5] max_messages    int     messages that the channel keeps at most; 0: no limit
--
-- Returns {"OK", epoch, mark, clock, through, expired, {at, message, at, message, …}}, {"NO_SUBSCRIBER"}, or
-- {"MOVING"} where the slot is half moved.
-- Safe to run twice: yes, it moves nothing.
local clock_key, epoch_key, mark_key, subs_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local message_prefix, ttl_ms = ARGV[1], tonumber(ARGV[2])
local limits = {count = tonumber(ARGV[3]), bytes = tonumber(ARGV[4]), messages = tonumber(ARGV[5])}

local clock, epoch, mark = position(clock_key, epoch_key, mark_key)
if not mark then
  return {'NO_SUBSCRIBER'}
end
local ok, through, expired, found = served(read, {prefix = message_prefix, here = clock_key}, mark, clock, limits)
if not ok then
  return {'MOVING'}
end
renew(ttl_ms, mark_key, subs_key, epoch_key, clock_key)
return {'OK', epoch, show(mark), show(clock), show(through), show(expired), found}
