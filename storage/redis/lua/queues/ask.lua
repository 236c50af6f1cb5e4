#!lua
-- ask.lua keeps a call that was handed over alive, notifies the server that serves or is to serve it, and reads its
-- answers. The first run stores the call.
--
-- KEYS[1] call    hash    the call: fence and attempt of the server that accepted it, last: number of its last answer,
--                         first: of the oldest stored one, taken: of the last one that was read, bytes: of the stored
--                         ones, left: 1 if the caller has left, ending: the last answer instead of those after taken,
--                         which are revoked, and each answer under its number
-- KEYS[2] holder  string  the lease of the queue's synchronizer
--
-- ARGV[1] calls     string  sharded pub/sub channel of that server
-- ARGV[2] id        string  of the call
-- ARGV[3] request   string  of the call; "" once the caller knows that it was accepted
-- ARGV[4] accepted  string  1: the caller knows that it was accepted
-- ARGV[5] after     int     number of the last answer that the caller has
-- ARGV[6] bytes     int     of the answers to read, at most, but at least one; 0: none
-- ARGV[7] ttl_ms    int     life of the call without a further run
--
-- Returns {"OK", now_ms, accepted, more, {answer, …}}, {"FREE"} if the call isn't accepted and the lease is free, or
-- {"GONE"} if it was accepted, all answers have been read, and the server that accepted it has lost the lease.
-- Safe to run twice: yes, the second run returns the same answers.
local call_key, holder_key = KEYS[1], KEYS[2]
local calls, id, request, accepted = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local after, bytes, ttl_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local _, now_ms = time.now()
local holder = lease.holder(holder_key, now_ms)
local known = redis.call('HMGET', call_key, 'fence', 'first', 'taken', 'last', 'bytes', 'ending')
local fence, stored = known[1] or '', tonumber(known[5] or 0)
local first, taken, last = tonumber(known[2] or 1), tonumber(known[3] or 0), tonumber(known[4] or 0)
local ending = known[6]
local available = ending and taken or last -- answers, without the ending
if fence == '' and accepted == '1' then
  return {'GONE'}
elseif fence == '' and holder == '' then
  redis.call('DEL', call_key)
  return {'FREE'}
end
acl.require(call_key, 'HGET', 'HSET', 'HDEL', 'PEXPIRE')
acl.require_publish(calls)

for n = first, math.min(after, available) do
  stored = stored - #redis.call('HGET', call_key, n)
  redis.call('HDEL', call_key, n)
  first = n + 1
end
local answers, size = {}, 0
for n = first, bytes > 0 and available or 0 do
  local answer = redis.call('HGET', call_key, n)
  size = size + #answer
  if #answers > 0 and size > bytes then
    break
  end
  answers[#answers + 1] = answer
  taken = math.max(taken, n)
end
local more = first + #answers <= available
if ending and bytes > 0 and not more then
  answers[#answers + 1] = ending
elseif ending then
  more = true
end
if fence ~= '' and fence ~= holder and #answers == 0 and taken == last and not ending then
  return {'GONE'}
end
redis.call('HSET', call_key, 'first', first, 'taken', taken, 'last', last, 'bytes', stored)
redis.call('PEXPIRE', call_key, ttl_ms)
redis.call('SPUBLISH', calls, '+' .. id .. ' ' .. (fence == '' and request or ''))
return {'OK', time.decimal(now_ms), fence ~= '' and 1 or 0, more and 1 or 0, answers}
