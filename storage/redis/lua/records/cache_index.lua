#!lua
-- cache_index.lua adds a cached value to an index, before the value is stored, and removes some expired entries. The
-- score of an entry is the time when it can be removed, and rises each time the value is added: so an invalidation that
-- has read an older score doesn't remove the entry (see cache_unindex.lua).
--
-- KEYS[1] ends   zset  entries, by when they end, in microseconds
-- KEYS[2] names  zset  the same entries, by their text; optional
--
-- ARGV[1] entry    string  the value's entry
-- ARGV[2] life_ms  int     how long the entry is kept: longer than the value can live
-- ARGV[3] most     int     how many entries the index may have
--
-- Returns {"OK"}, or {"FULL"} if nothing was added.
-- Safe to run twice: yes.
local ends_key, names_key = KEYS[1], KEYS[2]
local entry, life_ms, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local now_us, now_ms = time.now()
local ended = redis.call('ZRANGE', ends_key, '-inf', time.decimal(now_us), 'BYSCORE', 'LIMIT', 0, 100)
if #ended > 0 then
  redis.call('ZREM', ends_key, unpack(ended))
  if names_key then
    redis.call('ZREM', names_key, unpack(ended))
  end
end
local last = tonumber(redis.call('ZSCORE', ends_key, entry) or 0)
if last == 0 and redis.call('ZCARD', ends_key) >= most then
  return {'FULL'}
end
redis.call('ZADD', ends_key, time.decimal(math.max(now_us + life_ms * 1000, last + 1)), entry)
local keys = {ends_key}
if names_key then
  redis.call('ZADD', names_key, 0, entry)
  keys[2] = names_key
end
for _, key in ipairs(keys) do
  if redis.call('PEXPIRETIME', key) < now_ms + life_ms then
    redis.call('PEXPIREAT', key, time.decimal(now_ms + life_ms + 60000))
  end
end
return {'OK'}
