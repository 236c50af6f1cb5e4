#!lua
-- mark.lua keeps the mark of a setting, by which lists find it: whether it is secret, and when it was marked. A secret becomes
-- public only after its new value was written, and only if nobody has marked it since.
-- uses: time.time
--
-- KEYS[1] marks  hash  marks of all settings by name, "secret <µs>" or "public <µs>"
--
-- ARGV[1] name   string  of the setting
-- ARGV[2] want   string  "secret", "public", or "": what it is, or else usual
-- ARGV[3] usual  string  "secret" or "public", for a setting that has no mark
-- ARGV[4] since  string  the caller's mark from before it wrote the value; "": it hasn't written it
-- ARGV[5] most   int     settings at most
--
-- Returns {"OK", mark}, or {"FULL"}.
-- Safe to run twice: yes.
local marks_key = KEYS[1]
local name, want, usual, since, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])

local found = redis.call('HGET', marks_key, name)
if not found and redis.call('HLEN', marks_key) >= most then
  return {'FULL'}
end
local is = string.match(found or '', '^%l+')
local what = want ~= '' and want or is or usual
if is == 'secret' and found ~= since then
  what = 'secret'
end
local mark = what .. ' ' .. string.format('%d', (time()))
redis.call('HSET', marks_key, name, mark)
return {'OK', mark}
