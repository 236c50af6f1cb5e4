#!lua
-- mark.lua writes the mark of a setting, by which lists find it: its secrecy, and the time of the mark. A secret
-- becomes public only after its new value was written, and only if no other put may still write a secret value.
--
-- KEYS[1] marks  hash  marks of all settings by name: "public <µs>", "secret <µs>", or "secret <µs> <µs until which a
--                      put may write>"
--
-- ARGV[1] name      string  of the setting
-- ARGV[2] want      string  "secret", "public", or "": unchanged, or usual if it is new
-- ARGV[3] usual     string  "secret" or "public", for a setting that has no mark
-- ARGV[4] since     string  the caller's mark from before it wrote the value; "": it hasn't written it
-- ARGV[5] most      int     settings at most
-- ARGV[6] grace_us  int     for how long after its mark a value may be on its way
--
-- Returns {"OK", mark}, {"OPEN", mark} if another put may still write a secret value, or {"FULL"}.
-- Safe to run twice: yes. If the first run's answer is lost, the setting may stay secret for the grace.
local marks_key = KEYS[1]
local name, want, usual, since = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local most, grace_us = tonumber(ARGV[5]), tonumber(ARGV[6])

local found = redis.call('HGET', marks_key, name)
if not found and redis.call('HLEN', marks_key) >= most then
  return {'FULL'}
end
local now = time.now()
local is, open = string.match(found or '', '^(%l+) %d+ ?(%d*)$')
local what, ends = want ~= '' and want or is or usual, nil
local others = since == '' and (tonumber(open) or 0) > now
if since == '' then
  if is == 'secret' then
    what = 'secret'
  end
  if what == 'secret' and want ~= 'public' then
    ends = now + grace_us
  elseif others then
    ends = tonumber(open)
  end
elseif found and found ~= since then
  return {'OK', found}
end
local mark = what .. ' ' .. string.format('%d', now) .. (ends and string.format(' %d', ends) or '')
redis.call('HSET', marks_key, name, mark)
if others then
  return {'OPEN', mark}
end
return {'OK', mark}
