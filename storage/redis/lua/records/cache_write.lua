#!lua
-- cache_write.lua appends a value to those that aren't in the source of truth yet, and notifies the writer.
--
-- KEYS[1] writes   stream  values that aren't written yet, each with the token of its call, its ID and its bytes
-- KEYS[2] pending  hash    the last entry of each ID; and under the empty ID the bytes of all entries
--
-- ARGV[1] token       string  of the call
-- ARGV[2] id          string  what the value is of
-- ARGV[3] data        string  the value
-- ARGV[4] most        int     how many entries there may be
-- ARGV[5] most_bytes  int     how many bytes they may have
-- ARGV[6] topic       string  sharded pub/sub channel for notifications
--
-- Returns {"OK"}, or {"FULL"} if nothing was added.
-- Safe to run twice: yes, unless another value of the ID was added in between: then the value is written once more,
-- after that.
local writes_key, pending_key = KEYS[1], KEYS[2]
local token, id, data = ARGV[1], ARGV[2], ARGV[3]
local most, most_bytes, topic = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]

acl.require_publish(topic)
local last = redis.call('HGET', pending_key, id)
local entry = last and redis.call('XRANGE', writes_key, last, last)[1]
if entry and entry[2][2] == token then
  return {'OK'}
end
local bytes = tonumber(redis.call('HGET', pending_key, '') or 0) + #data
if redis.call('XLEN', writes_key) >= most or bytes > most_bytes then
  return {'FULL'}
end
local added = redis.call('XADD', writes_key, '*', 'token', token, 'id', id, 'data', data)
redis.call('HSET', pending_key, id, added, '', time.decimal(bytes))
redis.call('SPUBLISH', topic, 'added')
return {'OK'}
