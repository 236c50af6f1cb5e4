-- time.lua is Redis's time, and the lives of a queue's keys.

-- define: DAY_MS
local DAY_MS = 86400000

-- define: decimal
-- decimal returns a whole number as text. `..` and tostring would give large ones an exponent.
local function decimal(n)
  return string.format('%d', n)
end

-- define: time
-- time returns Redis's time in microseconds and in milliseconds.
local function time()
  local now = redis.call('TIME')
  local us = now[1] * 1000000 + now[2]
  return us, math.floor(us / 1000)
end

-- define: prolong
-- uses: time.DAY_MS time.decimal
-- prolong makes keys live for so long from now on. It writes only if a tenth of a day is gone of what the first
-- of them has. No key of a queue stays forever, even if the queue has no director any more.
local function prolong(now_ms, life_ms, ...)
  if redis.call('PEXPIRETIME', (...)) < now_ms + life_ms - DAY_MS / 10 then
    for _, key in ipairs({...}) do
      redis.call('PEXPIREAT', key, decimal(now_ms + life_ms))
    end
  end
end
