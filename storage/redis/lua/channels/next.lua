#!lua flags=allow-oom
-- next.lua acknowledges a receipt and then reads the messages after the mark: ack.lua and fetch.lua in one step.
--
-- KEYS[1] clock    string  the last clock given out
-- KEYS[2] epoch    string  ULID of this life of the channel
-- KEYS[3] mark     string  the subscriber's mark
-- KEYS[4] subs     set     names of subscribers
-- KEYS[5] message  string  the message at the receipt's clock
-- KEYS[6] record   string  dedup record of the receipt's message ID; only if that is known
--
-- ARGV[1]  acked          clock   the receipt's, a decimal string
-- ARGV[2]  epoch          ULID    the receipt's
-- ARGV[3]  message_id     string  of the message at the receipt's clock; empty: none is known
-- ARGV[4]  write          string  the write that stored that message; empty: not known
-- ARGV[5]  ends           int     when that message expires, in milliseconds; empty: not known
-- ARGV[6]  message_prefix string  what the channel's message keys start with
-- ARGV[7]  ttl_ms         int     life of the channel and the mark without activity
-- ARGV[8]  max            int     messages at most
-- ARGV[9]  max_bytes      int     bytes of messages at most, but always one message
-- ARGV[10] max_messages   int     messages that the channel keeps at most; 0: no limit
-- ARGV[11] wait_ms        int     how long the caller is going to wait if there are no messages
-- ARGV[12] purged         string  the key of the purged clocks
--
-- Returns {"OK", …}, {"NO_SUBSCRIBER"} or {"MOVING"} as fetch.lua does, or {"EPOCH"}, {"AHEAD"} or {"SUPERSEDED"}
-- if the receipt is refused and nothing was changed. After {"MOVING"} the mark has moved and only the reading
-- is missing.
-- Safe to run twice: yes.
local keys = {clock = KEYS[1], epoch = KEYS[2], mark = KEYS[3], subs = KEYS[4], message = KEYS[5], record = KEYS[6]}
local receipt = {at = ARGV[1], clock = tonumber(ARGV[1]), epoch = ARGV[2], id = ARGV[3], write = ARGV[4]}
local ends = ARGV[5]
local message_prefix, ttl_ms, wait_ms = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[11])
local log = {count = tonumber(ARGV[8]), bytes = tonumber(ARGV[9]), keeps = tonumber(ARGV[10]), least = 1}
local purged_key = ARGV[12]

receipt.ends = ends
local status, clock, mark, properties, value = ack.apply(keys, receipt, log.keeps, ttl_ms, wait_ms)
if status ~= 'OK' and status ~= 'STALE' then
  return {status}
end
log.prefix, log.here, log.purged = message_prefix, keys.clock, purged_key
local ok, read = slot.try(messages.read, log, mark, clock)
if not ok then
  return {'MOVING'}
end
if status == 'STALE' then
  channel.renew_after_poll(keys, properties, channel.ttl(properties, ttl_ms), wait_ms, read.through ~= mark)
end
local at = clocks.show(mark)
return {'OK', value, at, at, clocks.show(clock), clocks.show(read.through), clocks.show(read.expired),
  clocks.show(read.purged), 0, {}, read.found}
