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

-- The value of an epoch's key is the ULID of the channel's life, and if the life has properties, a space and a JSON
-- object: type (the content type of its messages), ttl (its life without activity, in milliseconds), ends (when it ends
-- at the latest, in milliseconds), first (the clock before its first message, as text), closed (true: nothing can be
-- published), by (the producer, its epoch and its sequence, as texts, that closed it), and producers (true: it has
-- had some). Absent: the policy's, never, "0", no.

-- life parses the value of an epoch's key. It returns the epoch, and the properties if there are any; or nothing.
function channel.life(value)
  local epoch = string.sub(value, 1, 26)
  if not string.find(epoch, '^[0-7][0-9A-HJKMNP-TV-Z]+$') or #epoch < 26 then
    return nil
  elseif #value == 26 then
    return epoch
  end
  local ok, properties = pcall(cjson.decode, string.sub(value, 28))
  if not ok or type(properties) ~= 'table' then
    return nil
  end
  return epoch, properties
end

-- life_value returns the value of an epoch's key, whose properties may be nil.
function channel.life_value(epoch, properties)
  return properties and next(properties) and epoch .. ' ' .. cjson.encode(properties) or epoch
end

-- stored returns what position returns, but for its error: then it returns nil, and the key that is damaged.
function channel.stored(clock_key, epoch_key, mark_key)
  local values
  if mark_key then
    values = redis.call('MGET', clock_key, epoch_key, mark_key)
  else
    values = redis.call('MGET', clock_key, epoch_key)
  end
  local at, value, text = unpack(values)
  if not at then
    return nil, nil, channel.NO_EPOCH
  end
  local clock, mark = clocks.parse(at), text and clocks.parse(text) or nil
  local epoch, properties = channel.NO_EPOCH, nil
  if value then
    epoch, properties = channel.life(value)
  end
  if not clock then
    return nil, clock_key
  elseif not epoch then
    return nil, epoch_key
  elseif text and not mark then
    return nil, mark_key
  elseif mark and not clocks.behind(mark, clock) then
    mark = nil
  end
  return clock, nil, epoch, mark, properties, value
end

-- position returns a channel's clock and epoch, the mark at mark_key, unless that is nil, the properties of its life,
-- or nil if it has none, and the value of the epoch's key. The clock is nil if the channel does not exist, the mark if
-- the subscriber does not exist: a mark ahead of the clock was left by an earlier life of the channel. It raises an
-- error if a value is damaged.
function channel.position(clock_key, epoch_key, mark_key)
  local clock, damaged, epoch, mark, properties, value = channel.stored(clock_key, epoch_key, mark_key)
  if damaged then
    error({err = 'DAMAGED ' .. damaged .. ' has a value that cannot be read'})
  end
  return clock, epoch, mark, properties, value or epoch
end

-- ttl returns the life of a channel without activity: that of its properties, or else that of its policy.
function channel.ttl(properties, ttl_ms)
  return properties and properties.ttl or ttl_ms
end

-- ending returns a time at which a key of the channel is to expire, or the end of its life if that is earlier.
function channel.ending(properties, ends)
  return properties and properties.ends and math.min(properties.ends, ends) or ends
end

-- producers_key returns the key of a channel's producers.
function channel.producers_key(clock_key)
  return string.sub(clock_key, 1, -#'clock' - 1) .. 'producers'
end

-- extend_producers keeps the channel's producers, if there are some, until a time, as text, or longer. Errors are
-- ignored: while the slot is half moved they may be on the other node, and what they have left is enough until the next
-- time.
function channel.extend_producers(clock_key, properties, ends)
  if properties and properties.producers then
    redis.pcall('PEXPIREAT', channel.producers_key(clock_key), ends, 'GT')
  end
end

-- extend sets the expiry of the channel's subs, producers, epoch and clock to a time plus spare, unless the clock lives
-- until that time already. The spare makes this necessary only once in that time, however often marks are renewed. The
-- clock comes last.
function channel.extend(run, keys, properties, ends, spare)
  if redis.call('PEXPIRETIME', keys.clock) >= ends then
    return
  end
  local life = clocks.show(channel.ending(properties, ends + spare))
  channel.extend_producers(keys.clock, properties, life)
  for _, key in ipairs({keys.subs, keys.epoch, keys.clock}) do
    run('PEXPIREAT', key, life, 'GT')
  end
end

-- extend_mark returns the expiry of a mark that has to live for life_ms from now on, which is never before its current
-- expiry, and extends the channel to that time.
function channel.extend_mark(keys, properties, life_ms)
  local has, now = channel.expiry(keys.mark)
  local ends = channel.ending(properties, math.max(now + life_ms, has))
  channel.extend(redis.call, keys, properties, ends, math.floor(life_ms / 10))
  return clocks.show(ends)
end

-- renew_after_read renews a channel with a TTL of its own after a read without a subscriber, for the TTL after a wait.
-- Errors are ignored: a tail can be read when Redis refuses writes.
function channel.renew_after_read(keys, properties, wait_ms)
  if properties and properties.ttl then
    local _, now = channel.expiry(keys.clock)
    channel.extend(redis.pcall, keys, properties, now + wait_ms + properties.ttl, 0)
  end
end

-- renew_after_poll renews the mark after a poll. A poll that was answered leaves it the whole TTL. A poll that is going
-- to wait may be answered by a notification, without another script: it leaves the whole TTL after its wait, and a
-- tenth more, so that the next one needs no write. Any other idle poll writes only if less than 9/10 of the TTL are
-- left. As long as 9/10 are left, errors of the writes are ignored.
function channel.renew_after_poll(keys, properties, ttl_ms, wait_ms, answered)
  local has, now = channel.expiry(keys.mark)
  local wait, spare = answered and 0 or wait_ms, math.floor(ttl_ms / 10)
  local ends = channel.ending(properties, now + wait + ttl_ms)
  local due = has < channel.ending(properties, now + ttl_ms * 0.9)
  if not due and (has >= ends or not answered and wait == 0) then
    return
  end
  if wait > 0 then
    ends, spare = channel.ending(properties, ends + spare), 0
  end
  local run = due and redis.call or redis.pcall
  channel.extend(run, keys, properties, ends, spare)
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
