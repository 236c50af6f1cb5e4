#!lua
-- publish.lua appends messages to a channel, all or none, in order. A message whose ID has a dedup record changes
-- nothing. If the channel doesn't exist, it can make a subscriber with it, whose mark is in front of the messages.
--
-- KEYS[1] clock    string  the last clock given out
-- KEYS[2] epoch    string  ULID of this life of the channel
-- KEYS[3] subs     set     names of subscribers
-- KEYS[4…] records string  dedup record of each message, in order: the clock that its ID got; then the mark, if any
--
-- ARGV[1] message_prefix  string  what the channel's message keys start with
-- ARGV[2] mark_prefix     string  what the channel's mark keys start with
-- ARGV[3] ttl_ms          int     life of a message, and of the channel without activity
-- ARGV[4] new_epoch       string  ULID of the life to begin if there is none; after "only ": of the messages' life; "":
--                                 none is begun
-- ARGV[5] max_messages    int     messages that the channel keeps at most; 0: no limit
-- ARGV[6] topic           string  sharded pub/sub channel to notify
-- ARGV[7] notices         string  a longer message is notified without its body; after a space: the pub/sub channel
--                                 that contents go to, too
-- ARGV[8…] heads          string  each message without its time and closing brace: {"id":"…","content":…
-- The message keys can't be declared. While the slot is half moved Redis refuses the call: a new message's record is
-- missing.
-- Returns {"OK", clock, duplicate, clock, …} with duplicate 0 or 1, {"CREATED", …} likewise if it made the channel,
-- {"NO_CHANNEL"}, {"LIFE"}: a later one has begun, or {"AGAIN"}: call again.
-- Safe to run twice: yes, the second run finds the dedup records.
local clock_key, epoch_key, subs_key, message_prefix, mark_prefix = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local ttl_ms, new_epoch, max_messages, topic, notices = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
local call, format, records, mark_key = redis.call, string.format, #ARGV - 4, KEYS[#ARGV - 3]
local notify_bytes, plain = tonumber(string.match(notices, '^%d+')), string.match(notices, ' (.*)')

local clock = tonumber(call('GET', clock_key))
local epoch = clock and call('GET', epoch_key)
local only = #new_epoch > 26 and string.sub(new_epoch, 6)
local why = channel.refusal(epoch, only, new_epoch)
if why then
  return {why}
end
-- A message never ends before the one in front of it, the clock never before a message, the epoch and the subs never
-- before the clock. These two get a tenth of the TTL more, so that they are due once in that time and not with each
-- publish.
local life, now = channel.expiry(clock and clock_key)
local ends = now + ttl_ms
local due = not epoch or life < ends and call('PEXPIRETIME', epoch_key) < ends
if clock and (life > ends or life < 0) then
  ends = math.max(ends, call('PEXPIRETIME', message_prefix .. format('%d', clock)))
end
local message_ends, tail = format('%d', ends), format(',"at":%d}', now)
notify.require_rights(topic, plain, due and subs_key, max_messages > 0 and clock_key)
-- If the clock is gone, dedup records are what an eviction left of an earlier life. The first one is overwritten.
if not clock and not channel.create(subs_key, mark_prefix, mark_key, message_ends, unpack(KEYS, 5, records)) then
  return {'AGAIN'}
end
epoch = clock and epoch or only or new_epoch
local reply, last = clock and {'OK'} or {'CREATED'}, clock or 0
for i = 4, records do
  local next, known = last < clocks.MAX and last + 1 or -clocks.MAX, nil
  local at = format('%d', next)
  if clock or i > 4 then
    known = call('SET', KEYS[i], at, 'PXAT', message_ends, 'NX', 'GET')
  else
    call('SET', KEYS[i], at, 'PXAT', message_ends)
  end
  reply[2 * i - 6], reply[2 * i - 5] = known or at, known and 1 or 0
  if not known then
    local message = ARGV[i + 4] .. tail
    call('SET', message_prefix .. at, message, 'PXAT', message_ends)
    if max_messages > 0 then
      call('DEL', message_prefix .. format('%d', clocks.sub(next, max_messages)))
    end
    notify.send(topic, epoch .. ' ' .. at, #message <= notify_bytes and message, plain, ARGV[i + 4])
    last = next
  end
end
if last ~= clock then
  local clock_ends = math.max(ends, life)
  if due then
    channel.prolong(epoch_key, epoch, subs_key, clock_ends + math.floor(ttl_ms / 10))
  end
  call('SET', clock_key, format('%d', last), 'PXAT', format('%d', clock_ends))
end
return reply
