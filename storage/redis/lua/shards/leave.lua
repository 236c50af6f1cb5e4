#!lua flags=allow-oom
-- leave.lua ends the claim of a token, and notifies those that wait for a shard. It may run when Redis is out of memory.
-- uses: time.time holder.front holder.put holder.has rights.demand_topic
--
-- KEYS[1] shards  hash  holders of the data centre, by host
--
-- ARGV[1] host   string  of the holder
-- ARGV[2] token  string  of the holder
-- ARGV[3] topic  string  sharded pub/sub channel of the data centre
--
-- Returns {"OK"}, also if the token has left before, or {"LOST"} if it holds no shard and nothing was changed.
-- Safe to run twice: yes.
local shards_key = KEYS[1]
local host, token, topic = ARGV[1], ARGV[2], ARGV[3]

local _, now_ms = time()
local until_ms, pinged_ms, shard, generation, rest = front(redis.call('HGET', shards_key, host), now_ms)
if not has(rest, token) or until_ms > 0 and until_ms <= now_ms then
  return {'LOST'}
end
if until_ms > 0 then
  demand_topic(topic)
  put(shards_key, host, 0, pinged_ms, shard, generation, rest)
  redis.call('SPUBLISH', topic, 'free')
end
return {'OK'}
