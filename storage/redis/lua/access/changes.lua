#!lua flags=no-writes
-- changes.lua reads the changes after a point, with the current values.
--
-- KEYS[1] keys         hash    records of API keys by ID
-- KEYS[2] revocations  hash    "<at, ms> <until, ms>" by "<kind>:<name>"
-- KEYS[3] changes      stream  changes of both hashes
--
-- ARGV[1]  most    int     changes at most
-- ARGV[2]  after   string  the point: the ID of a change
-- ARGV[3]  token   string  of that change
-- ARGV[4…] others  string  ID and token of each other change that must exist
--
-- Returns {"OK", id, token, what, name, value or "", …}, five values for each change, the earliest first, or {"LOST"}
-- if the change at the point, or another one that must exist, is missing: further changes may be missing, too.
-- Safe to run twice: yes, it only reads.
local keys_key, revocations_key, changes_key = KEYS[1], KEYS[2], KEYS[3]
local most, after, token, others = ARGV[1], ARGV[2], ARGV[3], {unpack(ARGV, 4)}

local points = {after, token, unpack(others)}
for i = 1, #points, 2 do
  local change = redis.call('XRANGE', changes_key, points[i], points[i])[1]
  if not change or change[2][2] ~= points[i + 1] then
    return {'LOST'}
  end
end
local reply = {'OK'}
for _, change in ipairs(redis.call('XRANGE', changes_key, '(' .. after, '+', 'COUNT', most)) do
  local _, named, what, name = unpack(change[2])
  local value = redis.call('HGET', what == 'key' and keys_key or revocations_key, name)
  for _, part in ipairs({change[1], named, what, name, value or ''}) do
    reply[#reply + 1] = part
  end
end
return reply
