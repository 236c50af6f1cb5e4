#!lua
-- accept.lua records which server serves a call that was handed over.
--
-- KEYS[1] call  hash  the call, see ask.lua
--
-- ARGV[1] fence    string  of the lease of the queue's synchronizer
-- ARGV[2] attempt  string  identifies this acceptance
--
-- Returns {"OK"}, or {"GONE"} if the caller has left, the call has ended, or it was accepted before.
-- Safe to run twice: yes, with the same attempt.
local call_key = KEYS[1]
local fence, attempt = ARGV[1], ARGV[2]

local known = redis.call('HMGET', call_key, 'last', 'attempt', 'left', 'ending')
if not known[1] or known[3] or known[4] or known[2] and known[2] ~= attempt then
  return {'GONE'}
end
redis.call('HSET', call_key, 'fence', fence, 'attempt', attempt)
return {'OK'}
