#!lua flags=allow-oom
-- describe.lua tells of a channel and its subscribers. Names of subscribers whose mark is gone are dropped.
-- include: clock.lua life.lua slot.lua gap.lua
--
-- KEYS[1] clock  string  the last clock given out
-- KEYS[2] epoch  string  ULID of this life of the channel
-- KEYS[3] subs   set     names of subscribers
--
-- ARGV[1] message_prefix  string  what the channel's message keys start with
-- ARGV[2] mark_prefix     string  what the channel's mark keys start with
-- ARGV[3] max_messages    int     messages that the channel keeps at most; 0: no limit
--
-- Returns {"OK", epoch, clock, ttl_ms, steps, {name, mark, name, mark, …}} with steps from the clock back to the
-- oldest message alive, -1 where none is, {"NO_CHANNEL"}, or {"MOVING"} where the slot is half moved.
-- Safe to run twice: yes.
local clock_key, epoch_key, subs_key = KEYS[1], KEYS[2], KEYS[3]
local message_prefix, mark_prefix, max_messages = ARGV[1], ARGV[2], tonumber(ARGV[3])

local clock, epoch = position(clock_key, epoch_key, clock_key)
if not clock then
  return {'NO_CHANNEL'}
end

local function marks()
  local found = {}
  for _, name in ipairs(redis.call('SMEMBERS', subs_key)) do
    local mark = tonumber(undeclared('MGET', clock_key, mark_prefix .. name)[2])
    if mark and behind(mark, clock) then
      found[#found + 1] = name
      found[#found + 1] = show(mark)
    else
      redis.call('SREM', subs_key, name)
    end
  end
  return found
end

local limit = max_messages > 0 and max_messages or MAX
local searched, steps = served(oldest, {prefix = message_prefix, here = clock_key}, clock, limit)
local listed, subscribers = served(marks)
if not searched or not listed then
  return {'MOVING'}
end
return {'OK', epoch, show(clock), redis.call('PTTL', clock_key), steps or -1, subscribers}
