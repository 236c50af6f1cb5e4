#!lua flags=no-writes
-- age.lua reads when a message of a channel was last announced.
--
-- KEYS[1] pending  zset  channels by when a message was last announced, in ms
--
-- ARGV[1] channel  string  the channel
--
-- Returns {"OK", at, age_ms}: the time, in the form of settle.lua, and how long ago it was, or {"GONE"} if there is
-- nothing to copy.
-- Safe to run twice: yes, it only reads.
local pending_key = KEYS[1]
local channel = ARGV[1]

local at = redis.call('ZSCORE', pending_key, channel)
if not at then
  return {'GONE'}
end
local _, now_ms = time.now()
return {'OK', time.decimal(tonumber(at)), math.max(0, now_ms - tonumber(at))}
