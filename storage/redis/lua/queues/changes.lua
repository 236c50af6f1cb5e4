#!lua flags=no-writes
-- changes.lua reports whether all changes after a point can still be read. They are trimmed from the front: while the
-- change at the point is there, nothing after it is gone.
--
-- KEYS[1] changes  stream  tickets that came or were cancelled
--
-- ARGV[1] after  string  the point: the ID of a change, or 0-0
--
-- Returns {"OK"}, or {"LOST"} if some may be gone.
-- Safe to run twice: yes, it only reads.
local changes_key = KEYS[1]
local after = ARGV[1]

if redis.call('EXISTS', changes_key) == 0 then
  return {after == '0-0' and 'OK' or 'LOST'}
end
if after ~= '0-0' and #redis.call('XRANGE', changes_key, after, after) == 1 then
  return {'OK'}
end
local about, stream = redis.call('XINFO', 'STREAM', changes_key), {}
for i = 1, #about, 2 do
  stream[about[i]] = about[i + 1]
end
local whole = after == '0-0' and stream['entries-added'] == stream.length
if whole or after == stream['last-generated-id'] then
  return {'OK'}
end
return {'LOST'}
