#!lua
-- state.lua stores the state of an OAuth login under its hash.
--
-- KEYS[1] state  hash  data of the login
--
-- ARGV[1] provider      string  of OAuth
-- ARGV[2] redirect_uri  string  URL to return to after the login
-- ARGV[3] csrf_token    string  also stored in the user's browser
-- ARGV[4] ttl_ms        int     life of the state
--
-- Returns {"OK", ends_ms}: when the state expires.
-- Safe to run twice: yes, the second run prolongs the state's life.
local state_key = KEYS[1]
local provider, redirect_uri, csrf_token, ttl_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local _, now_ms = time.now()
local ends_ms = time.decimal(now_ms + ttl_ms)
redis.call('HSET', state_key, 'redirect_uri', redirect_uri, 'csrf_token', csrf_token, 'provider', provider,
  'created_at', time.decimal(math.floor(now_ms / 1000)))
redis.call('PEXPIREAT', state_key, ends_ms)
return {'OK', ends_ms}
