-- life.lua is how a channel's keys live and die together. A channel's clock never expires before a message or a
-- mark of it, so that no life ends while something in it is alive.

-- define: times
-- times returns when a key ends, a negative number if it has no end or there is no key, and Redis's time, in milliseconds.
-- The time is the difference between a key's end and what is left until then, which is quicker to get than by TIME.
local function times(key)
  local ends = key and redis.call('PEXPIRETIME', key) or -2
  if ends >= 0 then
    return ends, ends - redis.call('PTTL', key)
  end
  local now = redis.call('TIME')
  return ends, now[1] * 1000 + math.floor(now[2] / 1000)
end

-- define: NO_EPOCH
-- A channel that the predecessor made has no epoch until its next publish or subscribe; it counts as this epoch.
local NO_EPOCH = '00000000000000000000000000'

-- define: position
-- uses: clock.behind life.NO_EPOCH
-- position reads a channel's clock and epoch, and a mark. clock is nil if the channel doesn't exist, mark if the subscriber
-- doesn't: a mark that isn't behind the clock was left by an earlier life.
local function position(clock_key, epoch_key, mark_key)
  local clock, epoch = tonumber(redis.call('GET', clock_key)), redis.call('GET', epoch_key)
  local mark = clock and tonumber(redis.call('GET', mark_key))
  if mark and not behind(mark, clock) then
    mark = nil
  end
  return clock, epoch or NO_EPOCH, mark
end

-- define: outlive
-- uses: clock.show
-- outlive makes the channel's own keys live at least until something in it ends, the clock last. Where that is due they
-- get a spare time, a tenth of the TTL, so that it is due once in that time, however often marks are renewed.
local function outlive(run, keys, ends, spare)
  if redis.call('PEXPIRETIME', keys.clock) >= ends then
    return
  end
  local life = show(ends + spare)
  for _, key in ipairs({keys.subs, keys.epoch, keys.clock}) do
    run('PEXPIREAT', key, life, 'GT')
  end
end

-- define: whole
-- uses: clock.show life.outlive life.times
-- whole returns when a mark ends that is to live for so long from now: never before the end that it has. The channel
-- lives as long.
local function whole(keys, life_ms)
  local has, now = times(keys.mark)
  local ends = math.max(now + life_ms, has)
  outlive(redis.call, keys, ends, math.floor(life_ms / 10))
  return show(ends)
end

-- define: polled
-- uses: clock.show life.outlive life.times
-- polled renews the mark after a poll. One that was answered leaves it the whole TTL. One that waits now may be answered
-- by a notification, without another script, so it leaves the whole TTL after its wait, and a tenth more, so that the
-- next one needn't write. Any other idle poll writes if less than 9/10 is left. Until then it is no error if nothing
-- may be written.
local function polled(keys, ttl_ms, wait_ms, answered)
  local has, now = times(keys.mark)
  local wait = answered and 0 or wait_ms
  local ends, due, spare = now + wait + ttl_ms, has < now + ttl_ms * 0.9, math.floor(ttl_ms / 10)
  if not due and (has >= ends or not answered and wait == 0) then
    return
  end
  if wait > 0 then
    ends, spare = ends + spare, 0
  end
  local run = due and redis.call or redis.pcall
  outlive(run, keys, ends, spare)
  run('PEXPIREAT', keys.mark, show(ends), 'GT')
end

-- define: refused
-- refused returns why nothing may be published, or nil: the channel is in a later life than only, or doesn't exist and no life may
-- be begun.
local function refused(epoch, only, new_epoch)
  if only and epoch and epoch > only then
    return 'LIFE'
  elseif new_epoch == '' and not epoch then
    return 'NO_CHANNEL'
  end
end

-- define: prolong
-- uses: clock.show
-- prolong makes a channel's epoch and subs live until a time, after the clock.
local function prolong(epoch_key, epoch, subs_key, ends)
  local text = show(ends)
  redis.call('SET', epoch_key, epoch, 'PXAT', text)
  redis.call('PEXPIREAT', subs_key, text)
end

-- define: found
-- uses: life.begin
-- found is begin, and then makes a subscriber at the clock 0 if the key of its mark is given.
local function found(subs_key, mark_prefix, mark_key, ends, ...)
  if not begin(subs_key, mark_prefix, ...) then
    return false
  elseif mark_key then
    redis.call('SADD', subs_key, string.sub(mark_key, #mark_prefix + 1))
    redis.call('SET', mark_key, '0', 'PXAT', ends)
  end
  return true
end

-- define: begin
-- begin removes what an eviction left of a channel's earlier life: marks, as many at a time as take Redis less than a
-- millisecond, and when there are none, other keys that it is given. It reports whether all of it is gone.
local function begin(subs_key, mark_prefix, ...)
  local marks = redis.call('SPOP', subs_key, 200)
  if #marks > 0 then
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
