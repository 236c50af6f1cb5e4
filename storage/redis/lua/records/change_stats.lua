#!lua
-- change_stats.lua changes counters of the current window of a series. Each window has a key of its own; the key of the
-- series has the same counters as the current window, and expires with it.
--
-- KEYS[1] series  hash    counters of the current window; a string for a metric
-- KEYS[2] window  hash    the same, for as long as the window is kept
-- KEYS[3] added   string  marks an addition
--
-- ARGV[1]  start_s      int     start of the window whose key this is
-- ARGV[2]  length_s     int     length of a window
-- ARGV[3]  keep_s       int     how long a window is kept after its start
-- ARGV[4]  kind         string  "fields", or "metric": a single counter, whose name is ""
-- ARGV[5]  change       string  "add" or "set"
-- ARGV[6]  repeat_ms    int     how long an addition is remembered
-- ARGV[7]  most         int     largest value of a counter, and smallest if negative
-- ARGV[8]  most_fields  int     fields of a window at most
-- ARGV[9…] changes      string  of each field, its name and what to add or set
--
-- Returns {"OK", value, …} with the values of the fields, {"OTHER", now_s} if the window isn't the current one,
-- {"RANGE"} if a value would be beyond the limits, or {"MANY"} if there were too many fields; all but the first have
-- changed nothing.
-- Safe to run twice: yes, a remembered addition isn't made again.
local series_key, window_key, added_key = KEYS[1], KEYS[2], KEYS[3]
local start_s, length_s, keep_s = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local kind, change, repeat_ms = ARGV[4], ARGV[5], tonumber(ARGV[6])
local most, most_fields, changes = tonumber(ARGV[7]), tonumber(ARGV[8]), batch.from(ARGV, 9)

local _, now_ms = time.now()
local known = change == 'add' and redis.call('EXISTS', added_key) == 1
if not known and (now_ms < start_s * 1000 or now_ms >= (start_s + length_s) * 1000) then
  return {'OTHER', math.floor(now_ms / 1000)}
end
local count = kind == 'fields' and redis.call('HLEN', window_key) or 0
local reply, written = {'OK'}, {}
for i = 1, #changes, 2 do
  local old
  if kind == 'fields' then
    old = redis.call('HGET', window_key, changes[i])
    count = count + (old and 0 or 1)
  else
    old = redis.call('GET', window_key)
  end
  local value = tonumber(known and (old or 0) or changes[i + 1])
  if change == 'add' and not known then
    value = value + (tonumber(old or 0) or most + 1)
  end
  if not value or math.abs(value) > most or value % 1 ~= 0 then
    return {'RANGE'}
  end
  written[i], written[i + 1] = changes[i], time.decimal(value)
  reply[#reply + 1] = time.decimal(value)
end
if known then
  return reply
elseif kind == 'fields' and count > most_fields then
  return {'MANY'}
end
for _, of in ipairs({{series_key, start_s + length_s}, {window_key, start_s + keep_s}}) do
  if kind == 'fields' then
    redis.call('HSET', of[1], unpack(written))
  else
    redis.call('SET', of[1], written[2])
  end
  redis.call('PEXPIREAT', of[1], time.decimal(of[2] * 1000))
end
if change == 'add' then
  redis.call('SET', added_key, '1', 'PX', repeat_ms)
end
return reply
