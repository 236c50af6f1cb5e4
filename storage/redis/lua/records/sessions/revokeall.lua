#!lua flags=allow-oom
-- revokeall.lua ends all sessions of a user. It may run when Redis is out of memory.
--
-- KEYS[1] sessions  set     IDs of the user's sessions
-- KEYS[2] ended     string  when all sessions of the user were ended, in seconds; only while those of Discours.io are
--                           accepted. It has a fraction, of milliseconds, if their list was emptied before
--
-- ARGV[1] base      string  what the keys of the user's sessions start with, before their IDs
-- ARGV[2] ended_ms  int     how long earlier sessions of Discours.io stay ended; 0: they don't
-- ARGV[3] emptied   int     1: their list was emptied before; 0: it may have some of them
--
-- Returns {"OK", ended}: how many were there, or {"MOVING"} if the slot is half moved.
-- Safe to run twice: yes.
local sessions_key, ended_key = KEYS[1], KEYS[2]
local base, ended_ms, emptied = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local ids = redis.call('SMEMBERS', sessions_key)
if not slot.try(sessions.probe, sessions_key, base, ids) then
  return {'MOVING'}
end
acl.require(sessions_key, 'DEL')
if ended_ms > 0 then
  local _, now_ms = time.now()
  local now = time.decimal(math.floor(now_ms / 1000))
  if emptied == '1' then
    now = string.format('%s.%03d', now, now_ms % 1000)
  end
  redis.call('SET', ended_key, now, 'PX', time.decimal(ended_ms))
end
local count = 0
for i, id in ipairs(ids) do
  ids[i] = base .. id
end
batch.each(ids, function(...)
  count = count + redis.call('DEL', ...)
end)
redis.call('DEL', sessions_key)
return {'OK', count}
