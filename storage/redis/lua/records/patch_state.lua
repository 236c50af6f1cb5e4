#!lua
-- patch_state.lua changes fields of a process's state, and sets its TTL. It writes only fields with another value.
--
-- KEYS[1] state  hash  the fields
--
-- ARGV[1]  ttl_ms       int     how long the state is kept
-- ARGV[2]  replace      int     1: remove all other fields
-- ARGV[3]  most_fields  int     of the state afterwards
-- ARGV[4]  most_bytes   int     of its fields and values
-- ARGV[5]  sets         int     how many fields are set
-- ARGV[6…] changes      string  of each field that is set, its name and value; then the names of those that are removed
--
-- Returns {"OK", ends_ms, {field, value, …}}, ends_ms 0 if no field is left, or {"MANY"} if there were too many fields
-- or bytes, and nothing was changed.
-- Safe to run twice: yes.
local state_key = KEYS[1]
local ttl_ms, replace, most_fields = ARGV[1], ARGV[2] == '1', tonumber(ARGV[3])
local most_bytes, sets, changes = tonumber(ARGV[4]), tonumber(ARGV[5]), batch.from(ARGV, 6)

local old = redis.call('HGETALL', state_key)
local before, fields, removed = {}, {}, {}
for i = 1, #old, 2 do
  before[old[i]] = old[i + 1]
  fields[old[i]] = not replace and old[i + 1] or nil
end
for i = 1, 2 * sets, 2 do
  fields[changes[i]] = changes[i + 1]
end
for i = 2 * sets + 1, #changes do
  fields[changes[i]] = nil
end
for i = 1, #old, 2 do
  if not fields[old[i]] then
    removed[#removed + 1] = old[i]
  end
end
local all, changed, bytes = {}, {}, 0
for field, value in pairs(fields) do
  if value ~= before[field] then
    changed[#changed + 1] = field
    changed[#changed + 1] = value
  end
  all[#all + 1] = field
  all[#all + 1] = value
  bytes = bytes + #field + #value
end
if #all > 2 * most_fields or bytes > most_bytes then
  return {'MANY'}
end
if #removed > 0 then
  redis.call('HDEL', state_key, unpack(removed))
end
if #all == 0 then
  return {'OK', 0, all}
end
if #changed > 0 then
  redis.call('HSET', state_key, unpack(changed))
end
redis.call('PEXPIRE', state_key, ttl_ms)
return {'OK', redis.call('PEXPIRETIME', state_key), all}
