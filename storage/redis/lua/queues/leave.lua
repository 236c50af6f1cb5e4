#!lua flags=allow-oom
-- leave.lua ends a call that was handed over: its caller leaves, or the server that serves it revokes the answers that
-- the caller hasn't read. It may run when Redis is out of memory.
--
-- KEYS[1] call  hash  the call, see ask.lua
--
-- ARGV[1] peers   string  sharded pub/sub channel of the other side
-- ARGV[2] id      string  of the call
-- ARGV[3] ending  string  "" if the caller leaves; else the last answer, instead of those that are revoked
-- ARGV[4] after   int     number of the last answer that the caller has, if it leaves
--
-- Returns {"OK", {answer, …}}, the answers that the caller hasn't got: it knows which; else those that were not read.
-- They stay until the call expires.
-- Safe to run twice: yes, with the same answers.
local call_key = KEYS[1]
local peers, id, ending, after = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local known = redis.call('HMGET', call_key, 'taken', 'last', 'left', 'ending', 'first')
if not known[1] or known[3] and ending ~= '' then
  return {'OK', {}}
end
local taken, last, revoked, unread = tonumber(known[1]), tonumber(known[2]), known[4], {}
acl.require(call_key, 'HGET', 'HSET', 'DEL')
acl.require_publish(peers)
local from, to = taken + 1, last
if ending == '' then
  from, to = math.max(tonumber(known[5]), after + 1), revoked and taken or last
end
for n = from, to do
  unread[#unread + 1] = redis.call('HGET', call_key, n)
end
if ending == '' then
  if #unread == 0 then
    redis.call('DEL', call_key)
  else
    redis.call('HSET', call_key, 'left', 1)
  end
  redis.call('SPUBLISH', peers, '-' .. id)
  return {'OK', unread}
end
redis.call('HSET', call_key, 'ending', ending)
redis.call('SPUBLISH', peers, id)
return {'OK', unread}
