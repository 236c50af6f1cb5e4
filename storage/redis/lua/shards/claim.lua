#!lua flags=allow-oom
-- claim.lua assigns a free shard of a data centre to a token: the shard that its host had last, or else the one with
-- the oldest ping. A Redis that may have lost claims grants none until those have expired. A layout that is lost, and
-- that nobody removed, is restored from what the caller knows of it; until a shard of it is assigned, a caller that
-- knows a newer one replaces it. It may run when Redis is out of memory.
--
-- KEYS[1] dcs     set   data centres of the cache
-- KEYS[2] layout  hash  generation, starts, last incarnation, and primary of the data centre; whether it was restored
-- KEYS[3] shards  hash  holders of the data centre, by host
--
-- ARGV[1] dc               string  the data centre
-- ARGV[2] host             string  of the caller
-- ARGV[3] token            string  of the caller
-- ARGV[4] ttl_ms           int     how long from now on
-- ARGV[5] address          string  at which clients reach the host
-- ARGV[6] last_generation  int     of the layout of the shard that the caller had last, 0 if it had none
-- ARGV[7] last_shard       int     that shard
-- ARGV[8] last_starts      string  first sharding keys of the shards of that layout
--
-- Returns {"OK", generation, shard, incarnation, starts}: starts are the first sharding keys of all shards. Otherwise
-- no shard was given: {"HELD", left_ms}, with the time until one may be free: holders of an earlier layout are left, or
-- all shards are held; {"SAME_HOST", left_ms} if another token holds one for the host; {"UNSURE", left_ms} if claims
-- may have been lost; {"NO_LAYOUT"}; {"LOST"} if the token had a shard and its claim has ended.
-- Safe to run twice: yes, while the token holds its shard it gets the same one.
local dcs_key, layout_key, shards_key = KEYS[1], KEYS[2], KEYS[3]
local dc, host, token, ttl_ms, address = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local last_generation, last_shard, last_starts = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]

local layout = redis.call('HMGET', layout_key, 'generation', 'starts', 'incarnation', 'run', 'since', 'restored')
local generation, starts, latest, run, since, restored = unpack(layout)
local now_us, now_ms = time.now()
if not generation then
  if last_generation == 0 or redis.call('HEXISTS', shards_key, holder.REMOVED) == 1 then
    return {'NO_LAYOUT'}
  end
  generation, run, since, restored = 0, primary.history(), now_ms, '1'
  redis.call('SADD', dcs_key, dc)
  redis.call('HSET', layout_key, 'run', run, 'since', time.decimal(since), 'restored', restored)
end
generation = tonumber(generation)
if restored and last_generation > generation then
  generation, starts = last_generation, last_starts
  redis.call('HSET', layout_key, 'generation', time.decimal(generation), 'starts', starts)
end
local own = redis.call('HGET', shards_key, host)
local until_ms, pinged_ms, shard, of, back = holder.parse(own, now_ms)
if back then
  holder.write(shards_key, host, until_ms, pinged_ms, own)
end
if holder.has(own, token) then
  if until_ms <= now_ms then
    return {'LOST'}
  elseif of ~= generation then
    return {'HELD', until_ms - now_ms}
  end
  holder.write(shards_key, host, now_ms + ttl_ms, now_ms, own)
  return {'OK', time.decimal(of), shard, string.match(own, '^%d+ %d+ %d+ %d+ (%d+)'), starts}
end
if not own and last_generation > 0 and since == '0' then
  -- The caller's claim is missing, so others may be, although the layout was set on this primary.
  run = nil
end
local unsure_ms = primary.unsure(layout_key, run, since, now_ms)
if until_ms > now_ms then
  return {'SAME_HOST', until_ms - now_ms}
end
if not own and last_generation == generation and last_starts == starts then
  shard, of = last_shard, last_generation
end
local had = of == generation
local shards = (#starts + 1) / 17
local seen = pick.survey(shards_key, generation, shards, now_ms, host)
local wait_ms = seen.former_ms
if wait_ms <= now_ms and (not had or seen.held[shard]) then
  shard, wait_ms = pick.free(seen, shards)
end
if not shard or wait_ms > now_ms then
  return {'HELD', wait_ms - now_ms}
end
-- Hosts that had a shard come first, so that they get it again.
wait_ms = unsure_ms + math.max(ttl_ms, seen.ttl_ms) + (had and 0 or math.floor(ttl_ms / 2))
if wait_ms > now_ms then
  return {'UNSURE', wait_ms - now_ms}
end
if seen.over[shard] then
  -- The claim has ended permanently: it is not restored when Redis's clock is set back.
  local last = redis.call('HGET', shards_key, seen.over[shard])
  local _, last_ms = holder.parse(last, now_ms)
  holder.write(shards_key, seen.over[shard], last_ms, last_ms, last)
end
local incarnation = time.decimal(math.max(tonumber(latest or 0) + 1, now_us))
redis.call('HSET', layout_key, 'incarnation', incarnation)
if restored then
  redis.call('HDEL', layout_key, 'restored')
end
local ends, now, of_layout = time.decimal(now_ms + ttl_ms), time.decimal(now_ms), time.decimal(generation)
local mine = {ends, now, shard, of_layout, incarnation, now, 0, token, address}
redis.call('HSET', shards_key, host, table.concat(mine, ' '))
time.prolong(now_ms, holder.KEEP_MS, shards_key)
return {'OK', time.decimal(generation), shard, incarnation, starts}
