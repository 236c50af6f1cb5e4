#!lua
-- publish.lua appends messages to a channel, all or none, in order. A message whose ID has a dedup record that
-- is alive, or that came earlier in the same call, changes nothing.
-- uses: clock.add clock.show clock.sub life.begin life.now_ms
--
-- KEYS[1] clock    string  the last clock given out
-- KEYS[2] epoch    string  ULID of this life of the channel
-- KEYS[3] subs     set     names of subscribers
-- KEYS[4…] records string  dedup record of each message, in order: the clock that its ID got
--
-- ARGV[1] message_prefix  string  what the channel's message keys start with
-- ARGV[2] mark_prefix     string  what the channel's mark keys start with
-- ARGV[3] ttl_ms          int     life of a message, and of the channel without activity
-- ARGV[4] new_epoch       string  ULID of the life to begin where there is none; after "only ": of the messages' life
-- ARGV[5] max_messages    int     messages that the channel keeps at most; 0: no limit
-- ARGV[6] topic           string  sharded pub/sub channel to tell
-- ARGV[7] notify_bytes    int     a longer message is told of without its body
-- ARGV[8…] heads          string  each message without its time and closing brace: {"id":"…","content":…
-- The message keys can't be declared. While the slot is half moved Redis refuses the call before the script runs, for
-- the record of a new message is a declared key that isn't there.
-- Returns {"OK", clock, duplicate, clock, …} with duplicate 0 or 1, {"LIFE"}: a later one has begun, {"AGAIN"}: call again.
-- Safe to run twice: yes, the second run finds the dedup records.
local clock_key, epoch_key, subs_key, records = KEYS[1], KEYS[2], KEYS[3], {unpack(KEYS, 4)}
local message_prefix, mark_prefix, ttl_ms, new_epoch = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local max_messages, topic, notify_bytes, heads = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7]), {unpack(ARGV, 8)}

-- Where the clock is gone, dedup records are what an eviction left of an earlier life.
local found = redis.call('MGET', clock_key, epoch_key, unpack(records))
local clock, epoch = tonumber(found[1]), found[2]
local only = string.match(new_epoch, '^only (.*)')
if only and clock and epoch and epoch > only then
  return {'LIFE'}
end
local reply, fresh, given, last = {'OK'}, {}, {}, clock or 0
for i, record in ipairs(records) do
  local at, duplicate = clock and found[2 + i] or given[record], 1
  if not at then
    last = add(last, 1)
    at, duplicate = show(last), 0
    given[record], fresh[#fresh + 1] = at, i
  end
  reply[2 * i], reply[2 * i + 1] = at, duplicate
end
if #fresh == 0 then
  return reply
end

-- What a user may not do stops a script in its middle. So the last steps are asked for before the first.
if not redis.acl_check_cmd('SPUBLISH', topic, '') or (max_messages > 0 and not redis.acl_check_cmd('DEL', clock_key)) then
  return redis.error_reply('NOPERM the user needs DEL, and SPUBLISH to ' .. topic)
end

-- A message ends no earlier than the one before it, and the channel no earlier than a message.
local now, life = now_ms(), redis.call('PEXPIRETIME', clock_key)
local tail, ends = ',"at":' .. show(now) .. '}', now + ttl_ms
if clock then
  ends = math.max(ends, redis.call('PEXPIRETIME', message_prefix .. show(clock)))
elseif not begin(subs_key, mark_prefix) then
  return {'AGAIN'}
end
life, ends = show(math.max(ends, life)), show(ends)
if clock and epoch then
  redis.call('PEXPIREAT', epoch_key, life)
else
  epoch = only or new_epoch
  redis.call('SET', epoch_key, epoch, 'PXAT', life)
end
redis.call('PEXPIREAT', subs_key, life)
redis.call('SET', clock_key, show(last), 'PXAT', life)
for _, i in ipairs(fresh) do
  local at, message = reply[2 * i], heads[i] .. tail
  redis.call('SET', message_prefix .. at, message, 'PXAT', ends)
  redis.call('SET', records[i], at, 'PXAT', ends)
  if max_messages > 0 then
    redis.call('DEL', message_prefix .. show(sub(tonumber(at), max_messages)))
  end
  local news = epoch .. ' ' .. at
  redis.call('SPUBLISH', topic, #message <= notify_bytes and news .. ' ' .. message or news)
end
return reply
