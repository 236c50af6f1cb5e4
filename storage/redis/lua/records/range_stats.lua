#!lua flags=no-writes
-- range_stats.lua reads windows of a series.
--
-- KEYS[1…] windows  hash  counters of a window; a string for a metric
--
-- ARGV[1] kind  string  "fields", or "metric": a single counter, whose name is ""
--
-- Returns {"OK", now_s, {field, value, …}, …}: Redis's time, and the values of each window in the order of the keys.
-- Safe to run twice: yes, it only reads.
local kind = ARGV[1]

local _, now_ms = time.now()
local reply = {'OK', math.floor(now_ms / 1000)}
for i = 1, #KEYS do
  local values = {}
  if kind == 'fields' then
    values = redis.call('HGETALL', KEYS[i])
  else
    local value = redis.call('GET', KEYS[i])
    values = value and {'', value} or values
  end
  reply[i + 2] = values
end
return reply
