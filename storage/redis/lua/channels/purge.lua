#!lua flags=allow-oom
-- purge.lua removes the oldest messages of a channel up to a clock, 500 at most. Dedup records and marks stay. It may
-- run when Redis is out of memory.
--
-- KEYS[1] clock   string  the last clock given out
-- KEYS[2] epoch   string  ULID of this life of the channel
--
-- ARGV[1] through         string  "latest" or a clock, a decimal string
-- ARGV[2] life            ULID    the life of the channel to purge in; "": the current one
-- ARGV[3] message_prefix  string  what the channel's message keys start with
-- ARGV[4] max_messages    int     messages that the channel keeps at most; 0: no limit
-- ARGV[5] ttl_ms          int     life of a message
-- ARGV[6] purged          string  the key of the purged clocks
--
-- Returns {"OK", epoch, through, removed, left} with the numbers of messages that were removed and that are left up to
-- the clock through; {"NO_CHANNEL"}, {"OTHER_LIFE"} if the channel is in another life, {"AHEAD"} if the clock is ahead
-- of the channel's, or {"MOVING"} if the slot is half moved.
-- Safe to run twice: yes, with a clock and a life. With "latest" the second run also removes what was published since.
local clock_key, epoch_key = KEYS[1], KEYS[2]
local through, life, message_prefix = ARGV[1], ARGV[2], ARGV[3]
local max_messages, ttl_ms, purged_key = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]

local clock, epoch = channel.position(clock_key, epoch_key)
if not clock then
  return {'NO_CHANNEL'}
elseif life ~= '' and life ~= epoch then
  return {'OTHER_LIFE'}
end
through = through == 'latest' and clock or tonumber(through)
if not clocks.behind(through, clock) then
  return {'AHEAD'}
end
local log = {prefix = message_prefix, here = clock_key, keeps = max_messages, purged = purged_key}
local ok, keys, left, value = slot.try(messages.some, log, through, clock)
if not ok then
  return {'MOVING'}
end
if #keys > 0 then
  messages.purge(purged_key, keys, value, ttl_ms)
end
return {'OK', epoch, clocks.show(through), #keys, left}
