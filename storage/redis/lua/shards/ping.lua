#!lua flags=allow-oom
-- ping.lua prolongs the claim of a token. It may run when Redis is out of memory.
--
-- KEYS[1] layout  hash  generation, starts, last incarnation, and primary of the data centre
-- KEYS[2] shards  hash  holders of the data centre, by host
--
-- ARGV[1] host    string  of the holder
-- ARGV[2] token   string  of the holder
-- ARGV[3] ttl_ms  int     how long from now on
-- ARGV[4] loaded  int     1 if the holder has loaded its shard, else 0
--
-- Returns {"OK"}; {"MOVED"} if the token's shard is one of an earlier layout, or {"LOST"} if it holds none: then
-- nothing was changed.
-- Safe to run twice: yes.
local layout_key, shards_key = KEYS[1], KEYS[2]
local host, token, ttl_ms, loaded = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local _, now_ms = time.now()
local own = redis.call('HGET', shards_key, host)
local until_ms, _, _, generation = holder.parse(own, now_ms)
if not holder.has(own, token) then
  return {'LOST'}
elseif tonumber(redis.call('HGET', layout_key, 'generation') or 0) ~= generation then
  return {'MOVED'}
elseif until_ms <= now_ms then
  return {'LOST'}
end
own = string.gsub(own, '^(%d+ %d+ %d+ %d+ %d+ %d+) %d', '%1 ' .. loaded)
holder.write(shards_key, host, now_ms + ttl_ms, now_ms, own)
time.prolong(now_ms, holder.KEEP_MS, shards_key)
return {'OK'}
