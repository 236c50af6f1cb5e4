#!lua
-- put.lua stores the sealed tokens of an OAuth provider for a user.
--
-- KEYS[1] access   string  sealed access token
-- KEYS[2] refresh  string  sealed refresh token
--
-- ARGV[1] access      string  the new token; "": unchanged
-- ARGV[2] access_ms   int     its life
-- ARGV[3] refresh     string  the new token; "": unchanged
-- ARGV[4] refresh_ms  int     its life
--
-- Returns {"OK", access_ends_ms, refresh_ends_ms}; 0 for a token that wasn't stored.
-- Safe to run twice: yes, the second run prolongs the lives.
local access_key, refresh_key = KEYS[1], KEYS[2]
local access, access_ms, refresh, refresh_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

local _, now_ms = time.now()
local access_ends_ms, refresh_ends_ms = '0', '0'
if access ~= '' then
  access_ends_ms = time.decimal(now_ms + access_ms)
  redis.call('SET', access_key, access, 'PXAT', access_ends_ms)
end
if refresh ~= '' then
  refresh_ends_ms = time.decimal(now_ms + refresh_ms)
  redis.call('SET', refresh_key, refresh, 'PXAT', refresh_ends_ms)
end
return {'OK', access_ends_ms, refresh_ends_ms}
