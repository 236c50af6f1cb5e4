#!lua flags=allow-oom
-- leave.lua ends the claim of a token, and notifies waiters if a shard is free now: among holders of an earlier layout,
-- only the last one notifies. It may run when Redis is out of memory.
--
-- KEYS[1] layout  hash  generation, starts, last incarnation, and primary of the data centre
-- KEYS[2] shards  hash  holders of the data centre, by host
--
-- ARGV[1] host   string  of the holder
-- ARGV[2] token  string  of the holder
-- ARGV[3] topic  string  sharded pub/sub channel of the data centre
--
-- Returns {"OK"}, also if the token has left before, or {"LOST"} if it holds no shard and nothing was changed.
-- Safe to run twice: yes.
local layout_key, shards_key = KEYS[1], KEYS[2]
local host, token, topic = ARGV[1], ARGV[2], ARGV[3]

local _, now_ms = time.now()
local own = redis.call('HGET', shards_key, host)
local until_ms, pinged_ms, _, generation = holder.parse(own, now_ms)
if not holder.has(own, token) or until_ms > 0 and until_ms <= now_ms then
  return {'LOST'}
end
if until_ms > 0 then
  acl.require_publish(topic)
  holder.write(shards_key, host, 0, pinged_ms, own)
  local current = tonumber(redis.call('HGET', layout_key, 'generation') or 0)
  if current > 0 then
    redis.call('HINCRBY', layout_key, 'left', 1)
  end
  if generation == current or not holder.others(shards_key, current, now_ms) then
    redis.call('SPUBLISH', topic, 'free')
  end
end
return {'OK'}
