#!lua flags=allow-oom
-- ack.lua moves a subscriber's mark up to the clock that a receipt is for. It may run when Redis is out of
-- memory, so that a full Redis can be drained.
--
-- KEYS[1] clock    string  the last clock given out
-- KEYS[2] epoch    string  ULID of this life of the channel
-- KEYS[3] mark     string  the subscriber's mark
-- KEYS[4] subs     set     names of subscribers
-- KEYS[5] message  string  the message at the receipt's clock
-- KEYS[6] record   string  dedup record of the receipt's message ID; only if that is known
--
-- ARGV[1] acked         clock   the receipt's, a decimal string
-- ARGV[2] epoch         ULID    the receipt's
-- ARGV[3] message_id    string  of the message at the receipt's clock; empty: none is known
-- ARGV[4] write         string  the write that stored that message; empty: not known
-- ARGV[5] ends          int     when that message expires, in milliseconds; empty: not known
-- ARGV[6] ttl_ms        int     life of the channel and the mark without activity
-- ARGV[7] max_messages  int     messages that the channel keeps at most; 0: no limit
--
-- Returns {"OK"}, {"STALE"} if the mark was there already, {"NO_SUBSCRIBER"}, {"EPOCH"}, {"AHEAD"} or
-- {"SUPERSEDED"}. Only the first moves the mark; the second renews the keys' lives; the others change nothing.
-- Safe to run twice: yes, the second run is STALE.
local keys = {clock = KEYS[1], epoch = KEYS[2], mark = KEYS[3], subs = KEYS[4], message = KEYS[5], record = KEYS[6]}
local receipt = {at = ARGV[1], clock = tonumber(ARGV[1]), epoch = ARGV[2], id = ARGV[3], write = ARGV[4]}
local ends = ARGV[5]
local ttl_ms, max_messages = tonumber(ARGV[6]), tonumber(ARGV[7])

receipt.ends = ends
local status, _, _, properties = ack.apply(keys, receipt, max_messages, ttl_ms, 0)
if status == 'STALE' then
  redis.call('PEXPIREAT', keys.mark, channel.extend_mark(keys, properties, channel.ttl(properties, ttl_ms)))
end
return {status}
