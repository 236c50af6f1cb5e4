#!lua flags=no-writes
-- get.lua reads the sealed tokens of an OAuth provider for a user.
--
-- KEYS[1] access   string  sealed access token
-- KEYS[2] refresh  string  sealed refresh token
--
-- Returns {"OK", access, access_ends_ms, refresh, refresh_ends_ms}; "" and a negative time for one that isn't there.
-- Safe to run twice: yes, it only reads.
local access_key, refresh_key = KEYS[1], KEYS[2]

local reply = {'OK'}
for _, key in ipairs({access_key, refresh_key}) do
  reply[#reply + 1] = redis.call('GET', key) or ''
  reply[#reply + 1] = redis.call('PEXPIRETIME', key)
end
return reply
