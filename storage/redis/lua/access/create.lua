#!lua
-- create.lua stores a new API key, unless there are too many.
--
-- KEYS[1] keys         hash    records of API keys by ID
-- KEYS[2] revocations  hash    "<at, ms> <until, ms>" by "<kind>:<name>"
-- KEYS[3] ends         zset    fields of both, by when they are removed, in ms
-- KEYS[4] changes      stream  changes of both hashes
--
-- ARGV[1] id       string  of the key
-- ARGV[2] record   string  JSON
-- ARGV[3] ends_ms  int     when the record is removed; 0: never
-- ARGV[4] most     int     keys at most, this one included
-- ARGV[5] token    string  names the change
-- ARGV[6] topic    string  sharded pub/sub channel of changes
--
-- Returns {"OK", id, token} of the last change, {"EXISTS"} if another key has or had the ID, or {"FULL"}.
-- Safe to run twice: yes, the second run finds its own record.
local keys_key, revocations_key, ends_key, changes_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, record, ends_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local most, token, topic = tonumber(ARGV[4]), ARGV[5], ARGV[6]

acl.require_publish(topic)
local _, now_ms = time.now()
registry.sweep(now_ms, ends_key, keys_key, revocations_key)
local found = redis.call('HGET', keys_key, id)
if found == record then
  return {'OK', registry.latest(changes_key)}
end
if found or redis.call('HEXISTS', revocations_key, 'key:' .. id) == 1 then
  return {'EXISTS'}
end
if redis.call('HLEN', keys_key) >= most then
  return {'FULL'}
end
redis.call('HSET', keys_key, id, record)
if ends_ms > 0 then
  redis.call('ZADD', ends_key, ends_ms, id)
end
registry.record(changes_key, token, topic, 'key', id)
return {'OK', registry.latest(changes_key)}
