#!lua
-- answer.lua adds answers to a call that was handed over, and notifies its caller.
--
-- KEYS[1] call  hash  the call, see ask.lua
--
-- ARGV[1]  answers  string  sharded pub/sub channel of callers
-- ARGV[2]  id       string  of the call
-- ARGV[3]  first    int     number of the first answer
-- ARGV[4]  limit    int     bytes of the stored answers, at most, unless there are none; 0: no limit
-- ARGV[5…] added    string  the answers, in order
--
-- Returns {"OK"}, {"GONE"} if the caller has left or the call was ended, or {"FULL"} if the answers would exceed the
-- limit; nothing was added then.
-- Safe to run twice: yes, answers with a number that is stored already are not added.
local call_key = KEYS[1]
local answers, id, first, limit, added = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), batch.from(ARGV, 5)

local known = redis.call('HMGET', call_key, 'last', 'bytes', 'left', 'ending')
if not known[1] or known[3] or known[4] then
  return {'GONE'}
end
local last, stored, size = tonumber(known[1]), tonumber(known[2]), 0
if first <= last then
  return {'OK'}
end
for _, answer in ipairs(added) do
  size = size + #answer
end
if limit > 0 and stored > 0 and stored + size > limit then
  return {'FULL'}
end
acl.require_publish(answers)
for i, answer in ipairs(added) do
  redis.call('HSET', call_key, last + i, answer)
end
redis.call('HSET', call_key, 'last', last + #added, 'bytes', stored + size)
redis.call('SPUBLISH', answers, id)
return {'OK'}
