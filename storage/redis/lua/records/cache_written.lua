#!lua flags=allow-oom
-- cache_written.lua removes values that are in the source of truth now, and notifies waiters. It may run when Redis is
-- out of memory.
--
-- KEYS[1] writes   stream  values that aren't written yet
-- KEYS[2] pending  hash    the last entry of each ID; and under the empty ID the bytes of all entries
--
-- ARGV[1]  topic    string  sharded pub/sub channel for notifications
-- ARGV[2…] written  string  the entries, up to 32
--
-- Returns {"OK"}.
-- Safe to run twice: yes.
local writes_key, pending_key = KEYS[1], KEYS[2]
local topic = ARGV[1]

acl.require_publish(topic)
for i = 2, #ARGV do
  local entry = redis.call('XRANGE', writes_key, ARGV[i], ARGV[i])[1]
  if entry then
    local id, data = entry[2][4], entry[2][6]
    redis.call('XDEL', writes_key, entry[1])
    redis.call('HINCRBY', pending_key, '', time.decimal(-#data))
    if redis.call('HGET', pending_key, id) == entry[1] then
      redis.call('HDEL', pending_key, id)
    end
  end
end
if redis.call('XLEN', writes_key) == 0 then
  redis.call('DEL', writes_key, pending_key)
end
redis.call('SPUBLISH', topic, 'written')
return {'OK'}
