-- life.lua is how a channel's keys live and die together. A channel's clock never expires before a message or a
-- mark of it, so that no life ends while something in it is alive.

-- now_ms is Redis's time in milliseconds.
local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- end_of_life gives when that ends which is written now: never before the clock does. So a message lives at least
-- as long as those before it, and a TTL that was shortened doesn't end a channel's life early.
local function end_of_life(now, ttl_ms, clock_key)
  return show(math.max(now + ttl_ms, redis.call('PEXPIRETIME', clock_key)))
end

-- position reads a channel. clock is nil where the channel doesn't exist, mark where the subscriber doesn't: a
-- mark that isn't behind the clock was left by an earlier life. A channel that the predecessor made has no epoch
-- until its next publish or subscribe; it counts as the epoch 0.
local NO_EPOCH = '00000000000000000000000000'
local function position(clock_key, epoch_key, mark_key)
  local found = redis.call('MGET', clock_key, epoch_key, mark_key)
  local clock, mark = tonumber(found[1]), tonumber(found[3])
  if clock and mark and not behind(mark, clock) then
    mark = nil
  end
  return clock, found[2] or NO_EPOCH, clock and mark
end

-- renew gives the keys the channel's TTL, all with the same end, the clock last. It writes only when less than
-- 9/10 of the TTL is left of the first (the subscriber's mark) or the last, so that an idle poll writes nothing.
local function renew(ttl_ms, ...)
  local keys = {...}
  local least = math.min(redis.call('PTTL', keys[1]), redis.call('PTTL', keys[#keys]))
  if least >= ttl_ms * 0.9 then
    return
  end
  local ends = show(now_ms() + ttl_ms)
  for _, key in ipairs(keys) do
    redis.call('PEXPIREAT', key, ends, 'GT')
  end
end

-- begin starts a new life of a channel: marks that an eviction left of the earlier one go.
local function begin(subs_key, mark_prefix)
  local names = redis.call('SMEMBERS', subs_key)
  for _, name in ipairs(names) do
    redis.call('DEL', mark_prefix .. name)
  end
  if #names > 0 then
    redis.call('DEL', subs_key)
  end
end
