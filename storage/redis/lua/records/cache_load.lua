#!lua flags=allow-oom
-- cache_load.lua begins to load a cached value by a put of several steps, and removes an older value. The load of
-- another put ends. It may run when Redis is out of memory.
--
-- KEYS[1] value  string  the cached value
-- KEYS[2] load   string  token of the put that is storing the value
--
-- ARGV[1] token   string  of the caller's put
-- ARGV[2] ttl_ms  int     how long the load lasts
--
-- Returns {"OK"}.
-- Safe to run twice: yes.
local value_key, load_key = KEYS[1], KEYS[2]
local token, ttl_ms = ARGV[1], ARGV[2]

redis.call('DEL', value_key)
redis.call('SET', load_key, token, 'PX', ttl_ms)
return {'OK'}
