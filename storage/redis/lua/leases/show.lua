#!lua flags=no-writes
-- show.lua reads whether a lease is held.
--
-- KEYS[1] holder  string  fence, end, and token of the holder
--
-- Returns {"OK", fence, until_ms}: the fence of the last holder, or 0 if none is known, and the end of its lease, or 0
-- if the lease is free.
-- Safe to run twice: yes, it only reads.
local holder_key = KEYS[1]

local _, now_ms = time.now()
local fence, until_ms = lease.read(holder_key)
return {'OK', time.decimal(fence), until_ms > now_ms and until_ms or 0}
