#!lua
-- cache_store.lua stores a cached value and ends its load. The value isn't stored if an invalidation or another
-- put has ended the caller's load.
--
-- KEYS[1] value  string  the cached value
-- KEYS[2] load   string  token of the put that is storing the value
--
-- ARGV[1] token   string  of the caller's load; empty: none is needed
-- ARGV[2] data    string  the value
-- ARGV[3] ttl_ms  int     how long it lives; 0: it is permanent
--
-- Returns {"OK"}, or {"SUPERSEDED"} if the token has no load and nothing was changed.
-- Safe to run twice: yes, the second time it returns SUPERSEDED, unless the token is empty.
local value_key, load_key = KEYS[1], KEYS[2]
local token, data, ttl_ms = ARGV[1], ARGV[2], ARGV[3]

if token ~= '' and redis.call('GET', load_key) ~= token then
  return {'SUPERSEDED'}
end
if ttl_ms == '0' then
  redis.call('SET', value_key, data)
else
  redis.call('SET', value_key, data, 'PX', ttl_ms)
end
redis.call('DEL', load_key)
return {'OK'}
