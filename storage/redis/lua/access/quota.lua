#!lua flags=allow-oom
-- quota.lua takes units of a quota that fills at a constant rate, by the generic cell rate algorithm. It may run when
-- Redis is out of memory, so that limits hold then, too.
--
-- KEYS[1] full  string  when the quota is full again, in microseconds
--
-- ARGV[1] units     int     to take
-- ARGV[2] interval  string  microseconds in which one unit comes back, with a fraction
-- ARGV[3] burst     int     units of a full quota
--
-- Returns {"OK", left} or {"LIMITED", left, retry_us}: the remaining units, and when enough will be available.
-- Safe to run twice: yes, but a second run takes units again.
local full_key = KEYS[1]
local units, interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local now = time.now()
local whole = burst * interval
local full = math.min(math.max(tonumber(redis.call('GET', full_key) or 0), now), now + whole)
local after = full + units * interval
if after > now + whole then
  return {'LIMITED', math.floor((now + whole - full) / interval), math.ceil(after - now - whole)}
end
redis.call('SET', full_key, time.decimal(math.ceil(after)), 'PX', time.decimal(math.ceil((after - now) / 1000) + 1))
return {'OK', math.floor((now + whole - after) / interval)}
