#!lua flags=allow-oom
-- ack.lua moves a subscriber's mark up to the clock that a receipt stands for. It may run where Redis is out of
-- memory, so that a full Redis can be drained.
-- include: clock.lua life.lua ack.lua
--
-- KEYS[1] clock    string  the last clock given out
-- KEYS[2] epoch    string  ULID of this life of the channel
-- KEYS[3] mark     string  the subscriber's mark
-- KEYS[4] subs     set     names of subscribers
-- KEYS[5] message  string  the message at the receipt's clock
--
-- ARGV[1] acked        clock   the receipt's, a decimal string
-- ARGV[2] epoch        ULID    the receipt's
-- ARGV[3] fingerprint  string  of the message's ID: 16 hex digits of its SHA-1; empty: none known
-- ARGV[4] ttl_ms       int     life of the channel and the mark without activity
--
-- Returns {"OK"}, {"STALE"} where the mark was there already, {"NO_SUBSCRIBER"}, {"EPOCH"}, {"AHEAD"} or
-- {"SUPERSEDED"}. Nothing is changed by any but the first, except the keys' lives by the second.
-- Safe to run twice: yes, the second run is STALE.
local keys = {clock = KEYS[1], epoch = KEYS[2], mark = KEYS[3], subs = KEYS[4], message = KEYS[5]}
local receipt = {clock = tonumber(ARGV[1]), epoch = ARGV[2], fingerprint = ARGV[3]}
local ttl_ms = tonumber(ARGV[4])

local at = {}
at.clock, at.epoch, at.mark = position(keys.clock, keys.epoch, keys.mark)
local status = judge(at, receipt, keys.message)
if status == 'OK' then
  move(keys, receipt.clock, ttl_ms)
elseif status == 'STALE' then
  redis.call('PEXPIREAT', keys.mark, whole(keys, ttl_ms))
end
return {status}
