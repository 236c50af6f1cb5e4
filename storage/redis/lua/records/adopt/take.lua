#!lua
-- take.lua writes a record that is taken over, and what it was taken over from, unless either has changed.
--
-- KEYS[1] record   string  of the service
-- KEYS[2] adopted  string  what was taken over before: the SHA-256 of a value, or a number of views, and
--                          " removing" if its key is about to be removed
--
-- ARGV[1] was          string  the record as it was: "=" and its value, or "" if there was none
-- ARGV[2] was_adopted  string  what was taken over before; "": nothing
-- ARGV[3] value        string  the record as it is to be: "=" and its value, or "" if it stays
-- ARGV[4] life_ms      int     the record's life; 0: it is permanent
-- ARGV[5] adopted      string  what is taken over
-- ARGV[6] keep_ms      int     how long that is remembered; 0: permanently
--
-- Returns {"OK"}, or {"CHANGED"} if the record isn't as it was, and nothing was changed.
-- Safe to run twice: yes, the second run finds what the first one wrote, and changes nothing, except for lives, which
-- begin again if the texts are the same.
local record_key, adopted_key = KEYS[1], KEYS[2]
local was, was_adopted, value, life_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local adopted, keep_ms = ARGV[5], tonumber(ARGV[6])

local function set(key, text, ms)
  if ms > 0 then
    redis.call('SET', key, text, 'PX', ms)
  else
    redis.call('SET', key, text)
  end
end

local found = redis.call('GET', record_key)
if (found and '=' .. found or '') ~= was or (redis.call('GET', adopted_key) or '') ~= was_adopted then
  return {'CHANGED'}
end
if value ~= '' then
  set(record_key, string.sub(value, 2), life_ms)
end
set(adopted_key, adopted, keep_ms)
return {'OK'}
