-- lease.lua reads and writes leases. The key of a lease is "<fence> <end, ms> <token of the holder>". The end is 0 if
-- the lease was released.
--
-- A lease may have a second key, that of its fence. Then the first key exists only while the lease is held, and the
-- second one keeps the last fence: "<fence> 0 <token>", with the token that has released the lease, or none. If the
-- first key has a value of another form, another program holds the lease, until the key ends.

local lease = {}

-- parse returns the fence, the end and the token in the value of a lease's key; 0, 0 and nil if there is no value.
function lease.parse(value)
  local fence, until_ms, token = string.match(value or '', '^(%d+) (%d+) (.*)$')
  return tonumber(fence or 0), tonumber(until_ms or 0), token
end

-- read returns the fence, the end and the token of a lease, and the last fence, which is that of the holder or higher.
-- fence_key is nil if the lease has none. If another program holds the lease, the fence is 0, the token is '', and the
-- end is at most an hour from now.
function lease.read(key, fence_key)
  local value = redis.call('GET', key)
  local fence, until_ms, token = lease.parse(value)
  if not fence_key then
    return fence, until_ms, token, fence
  end
  if value and not token then
    local _, now_ms = time.now()
    local ends_ms = redis.call('PEXPIRETIME', key)
    until_ms, token = now_ms + lease.KEEP_MS, ''
    if ends_ms > 0 then
      until_ms = math.min(until_ms, ends_ms)
    end
  end
  local last, _, released = lease.parse(redis.call('GET', fence_key))
  return fence, until_ms, token or released, math.max(fence, last)
end

-- holder returns the fence of a lease's holder, or '' if the lease is free.
function lease.holder(key, now_ms)
  local fence, until_ms = lease.read(key)
  return until_ms > now_ms and time.decimal(fence) or ''
end

-- KEEP_MS is how long the last fence stays after its lease. A fence is at least Redis's time, so fences rise even if
-- the last one has expired, unless Redis's clock was set back. While it exists, fences rise even if the clock was set
-- back by up to an hour.
lease.KEEP_MS = 3600000

local function set(key, fence, until_ms, token, expires_ms)
  local value = time.decimal(fence) .. ' ' .. time.decimal(until_ms) .. ' ' .. token
  redis.call('SET', key, value, 'PXAT', time.decimal(expires_ms))
end

-- write writes a lease. The end is 0 if it was released. fence_key and last are the key of its fence and the last fence
-- before, or nil if it has none.
function lease.write(key, fence, until_ms, token, now_ms, fence_key, last)
  last = math.max(fence, last or 0)
  local expires_ms = math.max(until_ms, now_ms, math.floor(last / 1000)) + lease.KEEP_MS
  if not fence_key then
    set(key, fence, until_ms, token, expires_ms)
  elseif until_ms > 0 then
    set(key, fence, until_ms, token, until_ms)
    set(fence_key, last, 0, '', expires_ms)
  else
    redis.call('DEL', key)
    set(fence_key, last, 0, token, expires_ms)
  end
end
