#!lua flags=allow-oom
-- acquire.lua assigns a lease to a token, unless another token holds it. It may run when Redis is out of memory.
--
-- KEYS[1] holder  string  fence, end, and token of the holder
-- KEYS[2] fence   string  the last fence, and the token that has released it; omitted if the holder's key keeps them
--
-- ARGV[1] token   string  token of the caller
-- ARGV[2] ttl_ms  int     how long from now on
--
-- Returns {"OK", fence, until_ms}, or {"HELD", left_ms} if another token holds the lease and nothing was changed.
-- Safe to run twice: yes, while the token holds the lease it gets the same fence.
local holder_key, fence_key = KEYS[1], KEYS[2]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])

local now_us, now_ms = time.now()
local fence, until_ms, current, last = lease.read(holder_key, fence_key)
if until_ms <= now_ms then
  fence = math.max(last + 1, now_us)
elseif current ~= token then
  return {'HELD', until_ms - now_ms}
end
lease.write(holder_key, fence, now_ms + ttl_ms, token, now_ms, fence_key, last)
return {'OK', time.decimal(fence), now_ms + ttl_ms}
