#!lua flags=no-writes
-- changes.lua reads the changes after a point, if all of them can still be read. They are trimmed from the front: while
-- the change at the point is there, nothing after it is gone.
--
-- KEYS[1] changes  stream  tickets that were created or cancelled
--
-- ARGV[1] after  string  the entry of the change at the point; 0-0: before the first one
-- ARGV[2] id     string  of that change's ticket; "" if the stream was empty at the point
-- ARGV[3] limit  int     changes at most
--
-- Returns {"OK", {{entry, {"id", id, …}}, …}}, or {"LOST"} if some may be gone.
-- Safe to run twice: yes, it only reads.
local changes_key = KEYS[1]
local after, id, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

if redis.call('EXISTS', changes_key) == 0 then
  return after == '0-0' and {'OK', {}} or {'LOST'}
end
local found = redis.call('XRANGE', changes_key, after, '+', 'COUNT', limit + 1)
if found[1] and found[1][1] == after then
  local same = found[1][2][2] == id
  table.remove(found, 1)
  return same and {'OK', found} or {'LOST'}
end
local about, stream = redis.call('XINFO', 'STREAM', changes_key), {}
for i = 1, #about, 2 do
  stream[about[i]] = about[i + 1]
end
found[limit + 1] = nil
local whole = after == '0-0' and stream['entries-added'] == stream.length
if whole or after == stream['last-generated-id'] then
  return {'OK', found}
end
return {'LOST'}
