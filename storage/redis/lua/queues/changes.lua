#!lua flags=no-writes
-- changes.lua reads the changes after a point, if all of them can still be read. They are trimmed from the front: while
-- the change at the point is there, nothing after it is gone.
--
-- KEYS[1] changes  stream  tickets that came or were cancelled
--
-- ARGV[1] after  string  the point: "<entry>/<ticket's ID>", an entry alone if the stream was empty there, or 0-0
-- ARGV[2] limit  int     changes at most
--
-- Returns {"OK", {{entry, {"id", id, …}}, …}}, or {"LOST"} if some may be gone.
-- Safe to run twice: yes, it only reads.
local changes_key = KEYS[1]
local after, limit = ARGV[1], tonumber(ARGV[2])

if redis.call('EXISTS', changes_key) == 0 then
  return after == '0-0' and {'OK', {}} or {'LOST'}
end
local point, id = string.match(after, '^([^/]*)/?(.*)$')
local found = redis.call('XRANGE', changes_key, point, '+', 'COUNT', limit + 1)
if found[1] and found[1][1] == point then
  local same = found[1][2][2] == id
  table.remove(found, 1)
  return same and {'OK', found} or {'LOST'}
end
local about, stream = redis.call('XINFO', 'STREAM', changes_key), {}
for i = 1, #about, 2 do
  stream[about[i]] = about[i + 1]
end
found[limit + 1] = nil
local whole = point == '0-0' and stream['entries-added'] == stream.length
if whole or point == stream['last-generated-id'] then
  return {'OK', found}
end
return {'LOST'}
