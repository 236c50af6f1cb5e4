#!lua flags=no-writes
-- list.lua reads a page of the sessions of a user, without the data for back ends. The first call returns the IDs that
-- are left for further pages, so that no run takes long. Entries that are no IDs are left out: an application that
-- writes sessions itself has their tokens in the set.
--
-- KEYS[1] sessions  set  IDs of the user's sessions
--
-- ARGV[1]  base  string  what the keys of the user's sessions start with, before their IDs
-- ARGV[2]  page  int     sessions in a page of the first call, at most
-- ARGV[3…] ids   string  of the sessions to read; none: the first call
--
-- Returns {"OK", left, id, username, created_s, last_activity_s, device_info or "", ends_ms, …}, left being a list of
-- IDs, and six values for each session, or {"MOVING"} if the slot is half moved.
-- Safe to run twice: yes, it only reads.
local sessions_key = KEYS[1]
local base, page = ARGV[1], tonumber(ARGV[2])
local ids, left = {unpack(ARGV, 3)}, {}

if #ids == 0 then
  ids = redis.call('SMEMBERS', sessions_key)
  left = {unpack(ids, page + 1)}
  ids = {unpack(ids, 1, math.min(page, #ids))}
else
  local alive = {}
  for i, member in ipairs(redis.call('SMISMEMBER', sessions_key, unpack(ids))) do
    if member == 1 then
      alive[#alive + 1] = ids[i]
    end
  end
  ids = alive
end
if not slot.try(sessions.probe, sessions_key, base, ids) then
  return {'MOVING'}
end
local reply = {'OK', left}
for _, id in ipairs(ids) do
  local key = base .. id
  local found = redis.call('HMGET', key, 'username', 'created_at', 'last_activity', 'device_info')
  if found[2] and #id == 64 and not string.find(id, '%X') then
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = id, found[1] or '', found[2], found[3] or found[2]
    reply[n + 5], reply[n + 6] = found[4] or '', redis.call('PEXPIRETIME', key)
  end
end
return reply
