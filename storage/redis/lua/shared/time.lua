-- time.lua reads Redis's time and prolongs the lives of keys.

local time = {}

time.DAY_MS = 86400000

-- decimal returns a whole number as text. `..` and tostring use an exponent for large ones.
function time.decimal(n)
  return string.format('%d', n)
end

-- now returns Redis's time in microseconds and in milliseconds.
function time.now()
  local now = redis.call('TIME')
  local us = now[1] * 1000000 + now[2]
  return us, math.floor(us / 1000)
end

-- prolong makes keys live for life_ms from now on. It writes only if the first of them lives at least a tenth of a day
-- shorter than that.
function time.prolong(now_ms, life_ms, ...)
  if redis.call('PEXPIRETIME', (...)) < now_ms + life_ms - time.DAY_MS / 10 then
    for _, key in ipairs({...}) do
      redis.call('PEXPIREAT', key, time.decimal(now_ms + life_ms))
    end
  end
end
