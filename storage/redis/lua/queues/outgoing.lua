#!lua flags=no-writes
-- outgoing.lua reads assignments that have been in the outbox for some time, the oldest first.
--
-- KEYS[1] outbox  stream  assignments to be published to their channels
--
-- ARGV[1] age_ms  int  how long they have been there at least
-- ARGV[2] limit   int  entries at most
--
-- Returns {"OK", now_us, {{entry, {"ticket", id, "match", id, "epoch", epoch, "content", assignment}}, …}}.
-- Safe to run twice: yes, it only reads.
local outbox_key = KEYS[1]
local age_ms, limit = tonumber(ARGV[1]), ARGV[2]

local now, now_ms = time.now()
return {'OK', time.decimal(now), redis.call('XRANGE', outbox_key, '-', time.decimal(now_ms - age_ms), 'COUNT', limit)}
