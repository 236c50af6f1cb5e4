#!lua flags=no-writes
-- changes.lua reads what changed after a point, as it is now.
--
-- KEYS[1] keys         hash    records of API keys by ID
-- KEYS[2] revocations  hash    "<at, ms> <until, ms>" by "<kind>:<name>"
-- KEYS[3] changes      stream  what changed
--
-- ARGV[1] after  string  the point: the ID of a change
-- ARGV[2] token  string  of that change
-- ARGV[3] most   int     changes at most
--
-- Returns {"OK", id, token, what, name, value or "", …}, five values for each change, the earliest first, or {"LOST"} if the
-- change at the point isn't there: others may be missing, too.
-- Safe to run twice: yes, it only reads.
local keys_key, revocations_key, changes_key = KEYS[1], KEYS[2], KEYS[3]
local after, token, most = ARGV[1], ARGV[2], ARGV[3]

local last = redis.call('XRANGE', changes_key, after, after)[1]
if not last or last[2][2] ~= token then
  return {'LOST'}
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
