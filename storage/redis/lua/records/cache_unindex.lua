#!lua flags=allow-oom
-- cache_unindex.lua removes entries from an index after their values were removed. An entry that was added again
-- meanwhile has another score, and stays: its value may be stored only now. It may run when Redis is out of memory.
--
-- KEYS[1] ends   zset  entries, by when they end, in microseconds
-- KEYS[2] names  zset  the same entries, by their text; optional
--
-- ARGV[1…] entries  string  pairs of an entry and the score that it had when the invalidation read it; up to 500
--
-- Returns {"OK"}.
-- Safe to run twice: yes.
local ends_key, names_key = KEYS[1], KEYS[2]

for i = 1, #ARGV, 2 do
  local entry, seen = ARGV[i], tonumber(ARGV[i + 1])
  local score = tonumber(redis.call('ZSCORE', ends_key, entry) or -1)
  if score == seen or score == -1 then
    redis.call('ZREM', ends_key, entry)
    if names_key then
      redis.call('ZREM', names_key, entry)
    end
  end
end
return {'OK'}
