#!lua flags=no-writes
-- show.lua reads whether a lease is held.
--
-- KEYS[1] holder  string  fence, end, and token of the holder
-- KEYS[2] fence   string  the last fence, and the token that has released it; omitted if the holder's key keeps them
--
-- Returns {"OK", fence, until_ms}: the fence of the last holder, or 0 if none is known, and the end of its lease, or 0
-- if the lease is free.
-- Safe to run twice: yes, it only reads.
local holder_key, fence_key = KEYS[1], KEYS[2]

local _, now_ms = time.now()
local fence, until_ms, _, last = lease.read(holder_key, fence_key)
if until_ms <= now_ms then
  return {'OK', time.decimal(last), 0}
end
return {'OK', time.decimal(fence), until_ms}
