#!lua flags=allow-oom
-- next.lua acknowledges a receipt and then reads what stands after the mark: ack.lua and fetch.lua in one step.
-- include: clock.lua life.lua ack.lua slot.lua gap.lua read.lua
--
-- KEYS[1] clock    string  the last clock given out
-- KEYS[2] epoch    string  ULID of this life of the channel
-- KEYS[3] mark     string  the subscriber's mark
-- KEYS[4] subs     set     names of subscribers
-- KEYS[5] message  string  the message at the receipt's clock
--
-- ARGV[1] acked           clock   the receipt's, a decimal string
-- ARGV[2] epoch           ULID    the receipt's
-- ARGV[3] fingerprint     string  of the message's ID: 16 hex digits of its SHA-1; empty: none known
-- ARGV[4] message_prefix  string  what the channel's message keys start with
-- ARGV[5] ttl_ms          int     life of the channel and the mark without activity
-- ARGV[6] max             int     messages at most
-- ARGV[7] max_bytes       int     bytes of messages at most, but always one message
-- ARGV[8] max_messages    int     messages that the channel keeps at most; 0: no limit
--
-- Returns {"OK", …}, {"NO_SUBSCRIBER"} or {"MOVING"} as fetch.lua does, or {"EPOCH"}, {"AHEAD"} or {"SUPERSEDED"}
-- where the receipt is refused and nothing was changed. After {"MOVING"} the mark has moved and only the reading
-- is missing.
-- Safe to run twice: yes.
local clock_key, epoch_key, mark_key, subs_key, message_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local receipt = {clock = tonumber(ARGV[1]), epoch = ARGV[2], fingerprint = ARGV[3]}
local message_prefix, ttl_ms = ARGV[4], tonumber(ARGV[5])
local limits = {count = tonumber(ARGV[6]), bytes = tonumber(ARGV[7]), messages = tonumber(ARGV[8])}

local at = {}
at.clock, at.epoch, at.mark = position(clock_key, epoch_key, mark_key)
local status = acknowledge(at, receipt, {mark = mark_key, message = message_key})
if status == 'OK' then
  at.mark = receipt.clock
elseif status ~= 'STALE' then
  return {status}
end
renew(ttl_ms, mark_key, subs_key, epoch_key, clock_key)
local ok, through, expired, found = served(read, {prefix = message_prefix, here = clock_key}, at.mark, at.clock, limits)
if not ok then
  return {'MOVING'}
end
return {'OK', at.epoch, show(at.mark), show(at.clock), show(through), show(expired), found}
