#!lua flags=allow-oom
-- renew.lua prolongs a lease that its holder has. It may run when Redis is out of memory.
--
-- KEYS[1] holder  string  fence, end, and token of the holder
-- KEYS[2] fence   string  the last fence, and the token that has released it; omitted if the holder's key keeps them
--
-- ARGV[1] token   string  of the holder
-- ARGV[2] ttl_ms  int     how long from now on
--
-- Returns {"OK", fence, until_ms}, or {"LOST"} if the token doesn't hold the lease and nothing was changed.
-- Safe to run twice: yes.
local holder_key, fence_key = KEYS[1], KEYS[2]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])

local _, now_ms = time.now()
local fence, until_ms, current, last = lease.read(holder_key, fence_key)
if current ~= token or until_ms <= now_ms then
  return {'LOST'}
end
lease.write(holder_key, fence, now_ms + ttl_ms, token, now_ms, fence_key, last)
return {'OK', time.decimal(fence), now_ms + ttl_ms}
