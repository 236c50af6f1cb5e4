-- lease.lua reads and writes the key of a lease: "<fence> <end, ms> <token of the holder>". A lease that was released has
-- the end 0.

-- define: parts
-- parts returns the parts of what a lease's key holds, and zeros if that is nothing.
local function parts(value)
  local fence, until_ms, token = string.match(value or '', '^(%d+) (%d+) (.*)$')
  return tonumber(fence or 0), tonumber(until_ms or 0), token
end

-- define: read
-- uses: lease.parts
-- read returns the parts of a lease, and zeros if there is none.
local function read(key)
  return parts(redis.call('GET', key))
end

-- define: holder
-- uses: lease.read time.decimal
-- holder returns the fence of a lease's holder, or '' if the lease is free.
local function holder(key, now_ms)
  local fence, until_ms = read(key)
  return until_ms > now_ms and decimal(fence) or ''
end

-- define: KEEP_MS
-- A fence is at least Redis's time, so that fences rise even if the key of the last one is gone, unless the clock was set
-- back. So the key stays for an hour after its lease: then fences also rise if the clock is set back by an hour.
local KEEP_MS = 3600000

-- define: write
-- uses: lease.KEEP_MS time.decimal
local function write(key, fence, until_ms, token, now_ms)
  local last_ms = math.max(until_ms, now_ms, math.floor(fence / 1000))
  redis.call('SET', key, decimal(fence) .. ' ' .. decimal(until_ms) .. ' ' .. token, 'PXAT', decimal(last_ms + KEEP_MS))
end
