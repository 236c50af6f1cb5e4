#!lua flags=allow-oom
-- unmark.lua removes the marks of settings that have no value, unless they were marked again or recently: a value may
-- still be written then. It may run when Redis is out of memory.
--
-- KEYS[1] marks  hash  marks of all settings by name, as mark.lua writes them
--
-- ARGV[1]  grace_us  int     for how long after its mark a value may be on its way
-- ARGV[2…] seen      string  name and mark of each, as they were before its value was looked for
--
-- Returns {"OK"}.
-- Safe to run twice: yes.
local marks_key = KEYS[1]
local grace_us, seen = tonumber(ARGV[1]), {unpack(ARGV, 2)}

local now = time.now()
for i = 1, #seen, 2 do
  local marked = tonumber(string.match(seen[i + 1], '%d+'))
  if marked + grace_us < now and redis.call('HGET', marks_key, seen[i]) == seen[i + 1] then
    redis.call('HDEL', marks_key, seen[i])
  end
end
return {'OK'}
