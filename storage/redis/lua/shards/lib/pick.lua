-- pick.lua picks a shard for a host. The starts of a layout are 16 hexadecimal digits each, separated by spaces.

local pick = {}

-- SPARE is the number of holders that are kept in addition to one per shard of a layout.
pick.SPARE = 100

-- survey reads all holders of a data centre. It returns a table: former_ms is the last end of a holder of another
-- generation, held has the ends of this one's shards, pinged the last pings of its free shards, over the hosts whose
-- claims of them have ended, and ttl_ms is the longest TTL. It corrects holders after Redis's clock was set back, and
-- removes holders whose claims have ended if there are too many.
function pick.survey(key, generation, shards, now_ms, host)
  local seen = {former_ms = 0, ttl_ms = 0, held = {}, pinged = {}, over = {}}
  local all = redis.call('HGETALL', key)
  local crowded = #all / 2 > shards + pick.SPARE
  for i = 1, #all, 2 do
    local until_ms, pinged_ms, shard, of, back = holder.parse(all[i + 1], now_ms)
    local ttl_ms = until_ms - (pinged_ms or 0)
    if ttl_ms > seen.ttl_ms and ttl_ms <= time.DAY_MS then
      seen.ttl_ms = ttl_ms
    end
    if until_ms <= now_ms and crowded and all[i] ~= host then
      redis.call('HDEL', key, all[i])
    elseif back then
      holder.write(key, all[i], until_ms, pinged_ms, all[i + 1])
    end
    if until_ms > now_ms and of == generation then
      seen.held[shard] = until_ms
    elseif until_ms > now_ms then
      seen.former_ms = math.max(seen.former_ms, until_ms)
    elseif of == generation then
      seen.pinged[shard] = math.max(seen.pinged[shard] or 0, pinged_ms)
      if until_ms > pinged_ms and not crowded then
        seen.over[shard] = all[i]
      end
    end
  end
  return seen
end

-- free returns the free shard with the earliest last ping, the lowest of several, and 0. If all shards are held, it
-- returns nil and the time at which the first claim ends.
function pick.free(seen, shards)
  local best, next_ms = nil, math.huge
  for shard = 0, shards - 1 do
    if seen.held[shard] then
      next_ms = math.min(next_ms, seen.held[shard])
    elseif not best or (seen.pinged[shard] or 0) < (seen.pinged[best] or 0) then
      best = shard
    end
  end
  return best, best and 0 or next_ms
end
