#!lua flags=allow-oom
-- revoke.lua stores a revocation, and removes the API key if one is revoked. It may run when Redis is out of memory.
--
-- KEYS[1] keys         hash    records of API keys by ID
-- KEYS[2] revocations  hash    "<at, ms> <until, ms>" by "<kind>:<name>"
-- KEYS[3] ends         zset    fields of both, by when they are removed, in ms
-- KEYS[4] changes      stream  changes of both hashes
--
-- ARGV[1] kind      string  what is revoked, such as "key": an API key
-- ARGV[2] name      string  its name; of an API key its ID
-- ARGV[3] at_ms     int     when it was revoked; 0: now
-- ARGV[4] until_ms  int     when the revocation ends; 0: after life_ms
-- ARGV[5] life_ms   int     how long a revocation without an end is kept
-- ARGV[6] most      int     revocations at most, this one included
-- ARGV[7] token     string  names the change
-- ARGV[8] topic     string  sharded pub/sub channel of changes
--
-- Returns {"OK", at_ms, until_ms, id, token}, the last two those of the last change or "", {"UNKNOWN"} if there is no
-- such key, or {"FULL"}. A key is removed even if there are too many revocations: then its revocation isn't stored, and
-- the times are 0. A revocation never ends earlier than it did.
-- Safe to run twice: yes, the second run may store a later time.
local keys_key, revocations_key, ends_key, changes_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local kind, name, at_ms, until_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local life_ms, most, token, topic = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]

acl.require_publish(topic)
local _, now_ms = time.now()
registry.sweep(now_ms, ends_key, keys_key, revocations_key)
local field = kind .. ':' .. name
local id, found = kind == 'key' and name, redis.call('HGET', revocations_key, field)
local found_at, found_until = string.match(found or '0 0', '^(%d+) (%d+)$')
if id and not found and at_ms == 0 and redis.call('HEXISTS', keys_key, id) == 0 then
  return {'UNKNOWN'}
end
local at = math.max(at_ms > 0 and at_ms or now_ms, tonumber(found_at))
local till = math.max(until_ms > 0 and until_ms or now_ms + life_ms, tonumber(found_until))
local value = time.decimal(at) .. ' ' .. time.decimal(till)
if found == value or till <= now_ms then
  return {'OK', at, till, registry.latest(changes_key)}
end
if not found and redis.call('HLEN', revocations_key) >= most then
  if not id then
    return {'FULL'}
  end
  at, till = 0, 0
else
  redis.call('HSET', revocations_key, field, value)
  redis.call('ZADD', ends_key, time.decimal(till), field)
  if redis.call('PEXPIRETIME', revocations_key) < till + time.DAY_MS then
    redis.call('PEXPIREAT', revocations_key, time.decimal(till + time.DAY_MS))
  end
end
if id then
  redis.call('HDEL', keys_key, id)
  redis.call('ZREM', ends_key, id)
end
registry.record(changes_key, token, topic, 'revoked', field)
return {'OK', at, till, registry.latest(changes_key)}
