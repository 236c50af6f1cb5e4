#!lua flags=allow-oom
-- remove.lua removes a data centre that has no holders, and notifies waiters for its shards. A field of the
-- holders says so for as long as they are kept, so that no host that had a shard restores the layout. It may run when
-- Redis is out of memory.
--
-- KEYS[1] dcs     set   data centres of the cache
-- KEYS[2] layout  hash  generation, starts, last incarnation, and primary of the data centre
-- KEYS[3] shards  hash  holders of the data centre, by host
--
-- ARGV[1] dc     string  the data centre
-- ARGV[2] topic  string  sharded pub/sub channel of the data centre
--
-- Returns {"OK"}, also if it was removed before, or {"IN_USE"} if holders are left and nothing was changed.
-- Safe to run twice: yes.
local dcs_key, layout_key, shards_key = KEYS[1], KEYS[2], KEYS[3]
local dc, topic = ARGV[1], ARGV[2]

local _, now_ms = time.now()
if holder.others(shards_key, 0, now_ms) then
  return {'IN_USE'}
end
acl.require_publish(topic)
redis.call('SREM', dcs_key, dc)
redis.call('DEL', layout_key, shards_key)
redis.call('HSET', shards_key, holder.REMOVED, time.decimal(now_ms))
time.prolong(now_ms, holder.KEEP_MS, shards_key)
redis.call('SPUBLISH', topic, 'layout')
return {'OK'}
