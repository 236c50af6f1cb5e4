-- lease.lua reads and writes the key of a lease: "<fence> <end, ms> <token of the holder>". The end is 0 if the lease
-- was released.

local lease = {}

-- parse returns the fence, the end and the token in the value of a lease's key; 0, 0 and nil if there is no value.
function lease.parse(value)
  local fence, until_ms, token = string.match(value or '', '^(%d+) (%d+) (.*)$')
  return tonumber(fence or 0), tonumber(until_ms or 0), token
end

-- read is parse of the value of a key.
function lease.read(key)
  return lease.parse(redis.call('GET', key))
end

-- holder returns the fence of a lease's holder, or '' if the lease is free.
function lease.holder(key, now_ms)
  local fence, until_ms = lease.read(key)
  return until_ms > now_ms and time.decimal(fence) or ''
end

-- KEEP_MS is how long the key stays after its lease. A fence is at least Redis's time, so fences rise even if the last
-- key has expired, unless Redis's clock was set back. While the key exists, fences rise even if the clock was set back
-- by up to an hour.
lease.KEEP_MS = 3600000

-- write writes a lease. The end is 0 if it was released.
function lease.write(key, fence, until_ms, token, now_ms)
  local last_ms = math.max(until_ms, now_ms, math.floor(fence / 1000))
  local value = time.decimal(fence) .. ' ' .. time.decimal(until_ms) .. ' ' .. token
  redis.call('SET', key, value, 'PXAT', time.decimal(last_ms + lease.KEEP_MS))
end
