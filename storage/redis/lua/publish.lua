#!lua
-- publish.lua appends messages to a channel, all or none, in order. A message whose ID has a dedup record that
-- is alive, or that came earlier in the same call, changes nothing.
-- include: clock.lua life.lua append.lua
--
-- KEYS[1] clock    string  the last clock given out
-- KEYS[2] epoch    string  ULID of this life of the channel
-- KEYS[3] subs     set     names of subscribers
-- KEYS[4…] records string  dedup record of each message, in order: the clock that its ID got
--
-- ARGV[1] message_prefix  string  what the channel's message keys start with
-- ARGV[2] mark_prefix     string  what the channel's mark keys start with
-- ARGV[3] ttl_ms          int     life of a message, and of the channel without activity
-- ARGV[4] new_epoch       ULID    the epoch, where this call begins a life
-- ARGV[5] max_messages    int     messages that the channel keeps at most; 0: no limit
-- ARGV[6] topic           string  sharded pub/sub channel to tell
-- ARGV[7] notify_bytes    int     a longer message is told of without its body
-- ARGV[8…] heads          string  each message without its time and closing brace: {"id":"…","content":…
--
-- The message keys can't be declared. While the slot is half moved Redis refuses the call before the script runs, for
-- the record of a new message is a declared key that isn't there.
--
-- Returns {"OK", clock, duplicate, clock, duplicate, …} with duplicate 0 or 1.
-- Safe to run twice: yes, the second run finds the dedup records.
local clock_key, epoch_key, subs_key, records = KEYS[1], KEYS[2], KEYS[3], {unpack(KEYS, 4)}
local message_prefix, mark_prefix, ttl_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local new_epoch, max_messages, topic = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local notify_bytes, heads = tonumber(ARGV[7]), {unpack(ARGV, 8)}

local found = redis.call('MGET', clock_key, epoch_key, unpack(records))
local clock, epoch = tonumber(found[1]), found[2]
local begins = not clock

-- Which messages are new, and at which clocks. Where the clock is gone, dedup records are what an eviction left of an
-- earlier life.
local reply, fresh, given = {'OK'}, {}, {}
local last = clock or 0
for i, record in ipairs(records) do
  local first = clock and found[2 + i] or given[record]
  if not first then
    last = add(last, 1)
    given[record] = show(last)
    fresh[#fresh + 1] = {at = last, record = record, head = heads[i]}
  end
  reply[2 * i], reply[2 * i + 1] = first or given[record], first and 1 or 0
end
if #fresh == 0 then
  return reply
end

-- What a user may not do stops a script in its middle. So the last steps of appending are asked for first.
if not may_append(clock_key, max_messages, topic) then
  return redis.error_reply('NOPERM the user needs DEL, and SPUBLISH to ' .. topic)
end

if begins then
  begin(subs_key, mark_prefix)
end
if begins or not epoch then
  epoch = new_epoch
end
local now = now_ms()
local ends = end_of_life(now, ttl_ms, clock_key)
redis.call('SET', epoch_key, epoch, 'PXAT', ends)
redis.call('PEXPIREAT', subs_key, ends)
redis.call('SET', clock_key, show(last), 'PXAT', ends)
append(fresh, {prefix = message_prefix, keeps = max_messages, now = now, ends = ends},
  {topic = topic, epoch = epoch, bytes = notify_bytes})
return reply
