-- fetch.lua reads the messages after a subscriber's mark, and renews the life of the channel and the mark. It has no #!
-- line: Redis then refuses single commands instead of the script, so that messages can be read when memory is full,
-- and, while 9/10 of the mark's life are left, even when Redis refuses all writes.
--
-- KEYS[1] clock  string  the last clock given out
-- KEYS[2] epoch  string  ULID of this life of the channel
-- KEYS[3] mark   string  the subscriber's mark
-- KEYS[4] subs   set     names of subscribers
--
-- ARGV[1] message_prefix  string  what the channel's message keys start with
-- ARGV[2] ttl_ms          int     life of the channel and the mark without activity
-- ARGV[3] max             int     messages at most
-- ARGV[4] max_bytes       int     bytes of messages at most, but always `least` messages
-- ARGV[5] max_messages    int     messages that the channel keeps at most; 0: no limit
-- ARGV[6] wait_ms         int     how long the caller is going to wait if there are no messages
-- ARGV[7] least           int     messages to return even if they have more than max_bytes: 0 or 1
--
-- Returns {"OK", epoch, mark, clock, through, expired, {at, {message, …}, at, {message, …}, …}}, {"NO_SUBSCRIBER"}, or
-- {"MOVING"} if the slot is half moved. Messages are listed in clock order, the first of a list being the one at the
-- clock in front of the list; a message that is gone is nil.
-- Safe to run twice: yes, it moves nothing.
local keys = {clock = KEYS[1], epoch = KEYS[2], mark = KEYS[3], subs = KEYS[4]}
local message_prefix, ttl_ms, wait_ms, least = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[6]), tonumber(ARGV[7])
local log = {count = tonumber(ARGV[3]), bytes = tonumber(ARGV[4]), keeps = tonumber(ARGV[5]), least = least}

local clock, epoch, mark = channel.position(keys.clock, keys.epoch, keys.mark)
if not mark then
  return {'NO_SUBSCRIBER'}
end
log.prefix, log.here = message_prefix, keys.clock
local ok, through, expired, found = slot.try(messages.read, log, mark, clock)
if not ok then
  return {'MOVING'}
end
channel.renew_after_poll(keys, ttl_ms, wait_ms, through ~= mark)
return {'OK', epoch, clocks.show(mark), clocks.show(clock), clocks.show(through), clocks.show(expired), found}
