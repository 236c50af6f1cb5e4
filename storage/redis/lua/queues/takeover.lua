#!lua flags=allow-oom
-- takeover.lua ends the claims that earlier directors have on some tickets. Who directs the queue may do so where the
-- claims serve nothing any more: then a director that was only paused finds that it can't assign them. It may run where
-- Redis is out of memory.
-- uses: rights.demand
--
-- KEYS[1] proposed  zset    IDs of tickets that are held, by until when, in milliseconds
-- KEYS[2] claims    hash    the tokens that hold them
-- KEYS[3] director  string  the lease of whoever directs the queue
--
-- ARGV[1]  lease  string  must be the director's
-- ARGV[2…] ids    string  of tickets
--
-- Returns {"OK", {id, …}}, the tickets whose claims were ended, or {"LEASE"} where the lease isn't held and nothing was
-- changed.
-- Safe to run twice: yes, the second run finds no claims.
local proposed_key, claims_key, director_key = KEYS[1], KEYS[2], KEYS[3]
local lease, ids = ARGV[1], {unpack(ARGV, 2)}

if redis.call('GET', director_key) ~= lease then
  return {'LEASE'}
end
-- The token of a claim is the lease of the director that made it, and a number. Other tokens are left alone.
local over = {}
for i, token in ipairs(redis.call('HMGET', claims_key, unpack(ids))) do
  local of = token and string.match(token, '^([^.]+)%.%d+$')
  if of and of ~= lease then
    over[#over + 1] = ids[i]
  end
end
if #over > 0 then
  demand(claims_key, 'HDEL', 'ZREM')
  redis.call('ZREM', proposed_key, unpack(over))
  redis.call('HDEL', claims_key, unpack(over))
end
return {'OK', over}
