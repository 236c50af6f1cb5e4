#!lua
-- state.lua keeps the state of an OAuth login under its hash.
--
-- KEYS[1] state  hash  what the login must know later
--
-- ARGV[1] provider      string  of OAuth
-- ARGV[2] redirect_uri  string  where the user goes after the login
-- ARGV[3] csrf_token    string  what the user's browser has, too
-- ARGV[4] ttl_ms        int     life of the state
--
-- Returns {"OK", ends_ms}: when the state ends.
-- Safe to run twice: yes, the second run prolongs the state's life.
local state_key = KEYS[1]
local provider, redirect_uri, csrf_token, ttl_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local _, now_ms = time.now()
local ends_ms = time.decimal(now_ms + ttl_ms)
redis.call('HSET', state_key, 'redirect_uri', redirect_uri, 'csrf_token', csrf_token, 'provider', provider,
  'created_at', time.decimal(math.floor(now_ms / 1000)))
redis.call('PEXPIREAT', state_key, ends_ms)
return {'OK', ends_ms}
