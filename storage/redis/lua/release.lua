#!lua flags=allow-oom
-- release.lua gives up those of some tickets that a token holds. It may run where Redis is out of memory.
--
-- KEYS[1] proposed  zset  IDs of tickets that are held, by until when, in milliseconds
-- KEYS[2] claims    hash  the tokens that hold them
--
-- ARGV[1]  token  string  who claimed
-- ARGV[2…] ids    string  of tickets
--
-- Returns {"OK"}.
-- Safe to run twice: yes, the second run finds nothing that the token holds.
local proposed_key, claims_key = KEYS[1], KEYS[2]
local token, ids = ARGV[1], {unpack(ARGV, 2)}

local mine = {}
for i, holder in ipairs(redis.call('HMGET', claims_key, unpack(ids))) do
  if holder == token then
    mine[#mine + 1] = ids[i]
  end
end
if #mine > 0 then
  redis.call('ZREM', proposed_key, unpack(mine))
  redis.call('HDEL', claims_key, unpack(mine))
end
return {'OK'}
