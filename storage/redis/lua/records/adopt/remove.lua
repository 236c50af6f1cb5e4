#!lua flags=allow-oom
-- remove.lua removes a key of Discours.io that was taken over, unless it has changed since. The memory of a large one
-- is freed in the background. It may run when Redis is out of memory.
--
-- KEYS[1] old  string  the key; a hash for an import of views
--
-- ARGV[1] was  string  its text, or the number of its fields
--
-- Returns {"OK"}, also if there is no key, or {"CHANGED"}.
-- Safe to run twice: yes, the second run finds no key.
local old_key = KEYS[1]
local was = ARGV[1]

local of = redis.call('TYPE', old_key).ok
local is
if of == 'string' then
  is = redis.call('GET', old_key)
elseif of == 'hash' then
  is = time.decimal(redis.call('HLEN', old_key))
end
if of ~= 'none' and is ~= was then
  return {'CHANGED'}
end
redis.call('UNLINK', old_key)
return {'OK'}
