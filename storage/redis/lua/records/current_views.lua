#!lua
-- current_views.lua makes an import of views the current one, unless the current one is later.
--
-- KEYS[1] current  string  when the views of the current import were counted, in seconds
--
-- ARGV[1] at  int  when the views of this import were counted, in seconds
--
-- Returns {"OK", at} of the current import.
-- Safe to run twice: yes.
local current_key = KEYS[1]
local at = tonumber(ARGV[1])

local current = tonumber(redis.call('GET', current_key) or 0)
if at > current then
  current = at
  redis.call('SET', current_key, time.decimal(at))
end
return {'OK', time.decimal(current)}
