#!lua flags=no-writes
-- hosts.lua reads the holders of a data centre.
-- uses: time.time
--
-- KEYS[1] shards  hash  holders of the data centre, by host
--
-- Returns {"OK", now_ms, holders}: their fields, also of those whose time is over.
-- Safe to run twice: yes, it only reads.
local shards_key = KEYS[1]

local _, now_ms = time()
return {'OK', now_ms, redis.call('HVALS', shards_key)}
