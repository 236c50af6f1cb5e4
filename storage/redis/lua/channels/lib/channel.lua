-- channel.lua reads the position of a channel and renews the lives of its keys. The clock never expires before a
-- message or a mark of its channel, so that a channel exists as long as any of them.

local channel = {}

-- deleted returns the clock at which the channel was deleted, or nil. It stands for as long as dedup records of that
-- life may exist. While the slot is half moved, it may be missing.
function channel.deleted(deleted_key)
  local at = redis.pcall('GET', deleted_key)
  return type(at) == 'string' and tonumber(at) or nil
end

-- expiry returns when a key expires, and Redis's time, both in milliseconds. The first is negative if the key has no
-- expiry, does not exist, or is nil. The time is computed from the key's absolute and relative expiry, which is faster
-- than TIME.
function channel.expiry(key)
  local ends = key and redis.call('PEXPIRETIME', key) or -2
  if ends >= 0 then
    return ends, ends - redis.call('PTTL', key)
  end
  local now = redis.call('TIME')
  return ends, now[1] * 1000 + math.floor(now[2] / 1000)
end

-- NO_EPOCH is the epoch of a channel that the predecessor made, until its next publish or subscribe.
channel.NO_EPOCH = '00000000000000000000000000'

-- stored returns what position returns, but for its error: then it returns nil, and the key that is damaged.
function channel.stored(clock_key, epoch_key, mark_key)
  local values
  if mark_key then
    values = redis.call('MGET', clock_key, epoch_key, mark_key)
  else
    values = redis.call('MGET', clock_key, epoch_key)
  end
  local at, epoch, text = unpack(values)
  if not at then
    return nil, nil, channel.NO_EPOCH
  end
  local clock, mark = clocks.parse(at), text and clocks.parse(text) or nil
  if not clock then
    return nil, clock_key
  elseif epoch and not (#epoch == 26 and string.find(epoch, '^[0-7][0-9A-HJKMNP-TV-Z]+$')) then
    return nil, epoch_key
  elseif text and not mark then
    return nil, mark_key
  elseif mark and not clocks.behind(mark, clock) then
    mark = nil
  end
  return clock, nil, epoch or channel.NO_EPOCH, mark
end

-- position returns a channel's clock and epoch, and the mark at mark_key, unless that is nil. The clock is nil if the
-- channel does not exist, the mark if the subscriber does not exist: a mark ahead of the clock was left by an earlier
-- life of the channel. It raises an error if a value is damaged.
function channel.position(clock_key, epoch_key, mark_key)
  local clock, damaged, epoch, mark = channel.stored(clock_key, epoch_key, mark_key)
  if damaged then
    error({err = 'DAMAGED ' .. damaged .. ' has a value that cannot be read'})
  end
  return clock, epoch, mark
end

-- extend sets the expiry of the channel's subs, epoch and clock to a time plus spare, unless the clock lives until that
-- time already. The spare makes this necessary only once in that time, however often marks are renewed. The clock comes
-- last.
function channel.extend(run, keys, ends, spare)
  if redis.call('PEXPIRETIME', keys.clock) >= ends then
    return
  end
  local life = clocks.show(ends + spare)
  for _, key in ipairs({keys.subs, keys.epoch, keys.clock}) do
    run('PEXPIREAT', key, life, 'GT')
  end
end

-- extend_mark returns the expiry of a mark that has to live for life_ms from now on, which is never before its current
-- expiry, and extends the channel to that time.
function channel.extend_mark(keys, life_ms)
  local has, now = channel.expiry(keys.mark)
  local ends = math.max(now + life_ms, has)
  channel.extend(redis.call, keys, ends, math.floor(life_ms / 10))
  return clocks.show(ends)
end

-- renew_after_poll renews the mark after a poll. A poll that was answered leaves it the whole TTL. A poll that is going
-- to wait may be answered by a notification, without another script: it leaves the whole TTL after its wait, and a
-- tenth more, so that the next one needs no write. Any other idle poll writes only if less than 9/10 of the TTL are
-- left. As long as 9/10 are left, errors of the writes are ignored.
function channel.renew_after_poll(keys, ttl_ms, wait_ms, answered)
  local has, now = channel.expiry(keys.mark)
  local wait = answered and 0 or wait_ms
  local ends, due, spare = now + wait + ttl_ms, has < now + ttl_ms * 0.9, math.floor(ttl_ms / 10)
  if not due and (has >= ends or not answered and wait == 0) then
    return
  end
  if wait > 0 then
    ends, spare = ends + spare, 0
  end
  local run = due and redis.call or redis.pcall
  channel.extend(run, keys, ends, spare)
  run('PEXPIREAT', keys.mark, clocks.show(ends), 'GT')
end

-- clear removes the keys that an eviction left of a channel's earlier life: first marks, as many at a time as take
-- Redis less than a millisecond, and when there are none, the given other keys. It reports whether all are removed.
function channel.clear(subs_key, mark_prefix, ...)
  local marks = slot.value(redis.pcall('SPOP', subs_key, 200))
  if not marks then
    redis.call('DEL', subs_key)
  elseif #marks > 0 then
    for i, name in ipairs(marks) do
      marks[i] = mark_prefix .. name
    end
    redis.call('DEL', unpack(marks))
    if redis.call('EXISTS', subs_key) == 1 then
      return false
    end
  end
  if ... then
    redis.call('DEL', ...)
  end
  return true
end
