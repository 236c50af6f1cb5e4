#!lua flags=allow-oom
-- release.lua ends a lease, if the token holds it, and notifies those that wait for it. It may run when Redis is out of
-- memory.
--
-- KEYS[1] holder  string  fence, end, and token of the holder
-- KEYS[2] fence   string  the last fence, and the token that has released it; omitted if the holder's key keeps them
--
-- ARGV[1] token  string  of the holder
-- ARGV[2] topic  string  sharded pub/sub channel of the lease
--
-- Returns {"OK"}, also if the token has released the lease before and no other token has held it since, or {"LOST"} if
-- the token has lost the lease and nothing was changed.
-- Safe to run twice: yes.
local holder_key, fence_key = KEYS[1], KEYS[2]
local token, topic = ARGV[1], ARGV[2]

local _, now_ms = time.now()
local fence, until_ms, current, last = lease.read(holder_key, fence_key)
if current ~= token or until_ms > 0 and until_ms <= now_ms then
  return {'LOST'}
end
if until_ms > 0 then
  acl.require_publish(topic)
  lease.write(holder_key, fence, 0, token, now_ms, fence_key, last)
  redis.call('SPUBLISH', topic, 'free')
end
return {'OK'}
