#!lua flags=allow-oom
-- takeover.lua ends the claims that earlier directors have on some tickets. The director may do so if the
-- claims are of no use any more: then a director that was only paused finds that it can't assign them. It may run when
-- Redis is out of memory.
--
-- KEYS[1] proposed  zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[2] claims    hash    tokens of the claims, by ID
-- KEYS[3] director  string  the lease of the queue's director
--
-- ARGV[1]  fence  string  must be that of the director's lease
-- ARGV[2…] ids    string  of tickets
--
-- Returns {"OK", {id, …}}, the tickets whose claims were ended, or {"LEASE"} if that lease isn't held and nothing was
-- changed.
-- Safe to run twice: yes, the second run finds no claims.
local proposed_key, claims_key, director_key = KEYS[1], KEYS[2], KEYS[3]
local fence, ids = ARGV[1], {unpack(ARGV, 2)}

local _, now_ms = time.now()
if lease.holder(director_key, now_ms) ~= fence then
  return {'LEASE'}
end
-- The token of a claim has the fence of the director that made it. Other tokens are left alone.
local ended = {}
for i, token in ipairs(redis.call('HMGET', claims_key, unpack(ids))) do
  local of = token and string.match(token, claims.DIRECTOR)
  if of and of ~= fence then
    ended[#ended + 1] = ids[i]
  end
end
if #ended > 0 then
  acl.require(claims_key, 'HDEL', 'ZREM')
  redis.call('ZREM', proposed_key, unpack(ended))
  redis.call('HDEL', claims_key, unpack(ended))
end
return {'OK', ended}
