#!lua
-- issue.lua stores a verification under the hash of its token, and removes the earlier one of the same user and type.
--
-- KEYS[1] verification  hash    the verification that the token identifies
-- KEYS[2] current       string  hash of the user's token of this type that is valid
--
-- ARGV[1] hash    string  of the token
-- ARGV[2] base    string  key of a verification of this user and type, without the hash
-- ARGV[3] user    string  owner of the token
-- ARGV[4] kind    string  type of the verification
-- ARGV[5] data    string  JSON, or "" for none
-- ARGV[6] ttl_ms  int     life of the verification
--
-- Returns {"OK", ends_ms}: when the token expires.
-- Safe to run twice: yes, the second run prolongs the token's life.
local verification_key, current_key = KEYS[1], KEYS[2]
local hash, base, user, kind, data, ttl_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])

local earlier = redis.call('GET', current_key)
if earlier then
  redis.call('DEL', base .. earlier)
end
local _, now_ms = time.now()
local ends_ms = time.decimal(now_ms + ttl_ms)
local created = time.decimal(math.floor(now_ms / 1000))
redis.call('HSET', verification_key, 'user_id', user, 'token_type', 'verification', 'verification_type', kind,
  'created_at', created)
if data ~= '' then
  redis.call('HSET', verification_key, 'data', data)
end
redis.call('PEXPIREAT', verification_key, ends_ms)
redis.call('SET', current_key, hash, 'PXAT', ends_ms)
return {'OK', ends_ms}
