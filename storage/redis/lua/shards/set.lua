#!lua
-- set.lua sets the layout of a data centre, and notifies waiters.
--
-- KEYS[1] dcs     set   data centres of the cache
-- KEYS[2] layout  hash  generation, starts, last incarnation, and primary of the data centre
-- KEYS[3] shards  hash  holders of the data centre, by host
--
-- ARGV[1] dc          string  the data centre
-- ARGV[2] generation  int     of its current layout, 0 if it has none
-- ARGV[3] starts      string  first sharding keys of the shards: 16 hexadecimal digits each, separated by spaces
-- ARGV[4] most        int     data centres at most, this one included
-- ARGV[5] topic       string  sharded pub/sub channel of the data centre
--
-- Returns {"OK", generation}, also if the layout is the next one already. Otherwise nothing was changed: {"CHANGED"} if
-- the data centre has another generation, {"IN_USE"} if holders of an earlier layout are left, {"FULL"} if there are
-- too many data centres.
-- Safe to run twice: yes.
local dcs_key, layout_key, shards_key = KEYS[1], KEYS[2], KEYS[3]
local dc, generation, starts, most, topic = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]

local current, its = unpack(redis.call('HMGET', layout_key, 'generation', 'starts'))
current = tonumber(current or 0)
if current == generation + 1 and its == starts then
  return {'OK', time.decimal(current)}
elseif current ~= generation then
  return {'CHANGED'}
end
local _, now_ms = time.now()
if holder.others(shards_key, current, now_ms) then
  return {'IN_USE'}
elseif redis.call('SISMEMBER', dcs_key, dc) == 0 and redis.call('SCARD', dcs_key) >= most then
  return {'FULL'}
end
acl.require_publish(topic)
if current == 0 then
  redis.call('DEL', shards_key) -- of a removed layout: generations begin again
  redis.call('HSET', layout_key, 'run', primary.history(), 'since', 0)
end
redis.call('SADD', dcs_key, dc)
redis.call('HSET', layout_key, 'generation', time.decimal(current + 1), 'starts', starts)
redis.call('HDEL', layout_key, 'restored')
redis.call('SPUBLISH', topic, 'layout')
return {'OK', time.decimal(current + 1)}
