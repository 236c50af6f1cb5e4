-- holder.lua reads and writes the last claim of a host, which is its field in the hash of a data centre:
-- "<end, ms> <last ping, ms> <shard> <generation> <incarnation> <claimed, ms> <loaded> <token> <address>". The end is 0
-- if the holder has left.

local holder = {}

-- parse returns a holder's end, last ping, shard and generation, and whether the ping is in the future because Redis's
-- clock was set back. Such a ping counts as one of now, so that the holder keeps its shard for its TTL and no longer.
-- If the value is malformed, parse returns only an end of 0.
function holder.parse(value, now_ms)
  local until_ms, pinged_ms, shard, generation = string.match(value or '', '^(%d+) (%d+) (%d+) (%d+) %d')
  if not until_ms then
    return 0
  end
  until_ms, pinged_ms = tonumber(until_ms), tonumber(pinged_ms)
  local back = pinged_ms > now_ms
  if back then
    until_ms, pinged_ms = math.max(0, until_ms - pinged_ms + now_ms), now_ms
  end
  return until_ms, pinged_ms, tonumber(shard), tonumber(generation), back
end

-- write writes a holder with a new end and a new last ping.
function holder.write(key, host, until_ms, pinged_ms, value)
  local rest = string.match(value, '^%d+ %d+( .*)$')
  redis.call('HSET', key, host, time.decimal(until_ms) .. ' ' .. time.decimal(pinged_ms) .. rest)
end

-- has reports whether a holder has a token.
function holder.has(value, token)
  return string.match(value or '', '^%d+ %d+ %d+ %d+ %d+ %d+ %d (%S+) ') == token
end

-- others reports whether one of the holders of a data centre has a shard of another generation.
function holder.others(key, generation, now_ms)
  for _, value in ipairs(redis.call('HVALS', key)) do
    local until_ms, _, _, of = holder.parse(value, now_ms)
    if until_ms > now_ms and of ~= generation then
      return true
    end
  end
  return false
end

-- KEEP_MS is how long the holders of a data centre are kept after the last ping, so that a host gets the shard it had.
holder.KEEP_MS = 604800000

-- REMOVED is the field of a data centre that was removed. It is no name of a host.
holder.REMOVED = '.removed'
