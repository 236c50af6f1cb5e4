#!lua
-- publish.lua appends messages to a channel, all or none, in order. A message whose ID has a dedup record changes
-- nothing. If the channel does not exist, a subscriber can be created with it, whose mark is before the messages.
--
-- KEYS[1]  clock    string  the last clock given out
-- KEYS[2]  epoch    string  ULID of this life of the channel
-- KEYS[3]  subs     set     names of subscribers
-- KEYS[4…] records  string  dedup record of each message, in order: the clock that its ID got
--
-- ARGV[1]   message_prefix  string  what the channel's message keys start with
-- ARGV[2]   mark_prefix     string  what the channel's mark keys start with
-- ARGV[3]   subscriber      string  name of the subscriber to create with the channel; "": none
-- ARGV[4]   ttl_ms          int     life of a message, and of the channel without activity
-- ARGV[5]   new_epoch       ULID    epoch of the life to begin if the channel does not exist; "": none is begun
-- ARGV[6]   last_epoch      ULID    the messages are refused in a later life of the channel; "": in none
-- ARGV[7]   max_messages    int     messages that the channel keeps at most; 0: no limit
-- ARGV[8]   topic           string  sharded pub/sub channel of the notifications
-- ARGV[9]   notify_bytes    int     size of a message beyond which its notification has no body
-- ARGV[10]  plain           string  pub/sub channel to publish contents on as well; "": none
-- ARGV[11]  separate        int     1: the messages are separate publishes, each with a notification; 0: a batch
-- ARGV[12]  deleted         string  key of the clock at which the channel was deleted
-- ARGV[13…] heads           string  each message without its time and closing brace: {"id":"…","content":…
--
-- The keys of messages and of the mark are not declared: the clocks are known only here, and while the slot is half
-- moved, Redis would refuse duplicates too if a declared mark did not exist. Redis refuses new messages then, because
-- their records are missing.
--
-- Returns {"OK", clock, duplicate, clock, …} with duplicate 0, 1, or 2 if its content differs from that of the message
-- at the clock, {"CREATED", …} likewise if it created the channel, {"NO_CHANNEL"}, {"LIFE"} if a later life has begun,
-- or {"AGAIN"} if the call has to be repeated.
-- Safe to run twice: yes, the second run finds the dedup records.
local clock_key, epoch_key, subs_key, message_prefix, mark_prefix = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local subscriber, ttl_ms, new_epoch, last_epoch = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local max_messages, topic, notify_bytes, plain = tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9]), ARGV[10]
local separate, deleted_key = ARGV[11] == '1', ARGV[12]
local call, format, may = redis.call, string.format, redis.acl_check_cmd

local clock, epoch = channel.position(clock_key, epoch_key)
epoch = clock and epoch ~= channel.NO_EPOCH and epoch
if last_epoch ~= '' and epoch and epoch > last_epoch then
  return {'LIFE'}
elseif new_epoch == '' and not epoch then
  return {'NO_CHANNEL'}
end

-- A message never expires before an earlier one, the clock never before a message, the epoch and the subs never before
-- the clock. The latter two get a tenth of the TTL more, so that they are renewed once in that time instead of with
-- each publish.
local life, now = channel.expiry(clock and clock_key)
local ends = now + ttl_ms
local due = not epoch or life < ends and call('PEXPIRETIME', epoch_key) < ends
if clock and (life > ends or life < 0) then
  ends = math.max(ends, call('PEXPIRETIME', message_prefix .. format('%d', clock)))
end
local message_ends, tail = format('%d', ends), format(',"at":%d}', now)
local mark_key = not clock and subscriber ~= '' and mark_prefix .. subscriber

-- A missing right would stop the script after its first write.
if not may('SPUBLISH', topic, '') or plain ~= '' and not may('PUBLISH', plain, '')
  or due and not may('PEXPIREAT', subs_key) or max_messages > 0 and not may('DEL', clock_key)
  or mark_key and not may('SET', mark_key, '') then
  local also = plain ~= '' and ', and PUBLISH to ' .. plain or ''
  error({err = 'NOPERM the user needs DEL, PEXPIREAT, and SPUBLISH to ' .. topic .. also})
end

-- If the clock is gone, existing dedup records were left by an eviction in an earlier life. The first one is
-- overwritten.
if not clock and not channel.clear(subs_key, mark_prefix, unpack(KEYS, 5)) then
  return {'AGAIN'}
end
local last = clock or channel.deleted(deleted_key) or 0
if mark_key then
  call('SADD', subs_key, subscriber)
  call('SET', mark_key, format('%d', last), 'PXAT', message_ends)
end

-- content_at returns where the content of a head begins. An ID has no quotes, so it follows the first occurrence of its
-- name.
local function content_at(head)
  local _, before = string.find(head, '"content":', 1, true)
  return before + 1
end

-- duplicate returns 0 if a dedup record isn't of this history, 2 if the message at its clock has another content than
-- the head, and otherwise 1. A record is of this history if the message at its clock has the ID, or is gone; others are
-- damaged, or of a life that was deleted or evicted.
local function duplicate(known, head)
  local at, deleted = clocks.parse(known), channel.deleted(deleted_key)
  if not at or not clocks.behind(at, last) or deleted and clocks.behind(at, deleted) then
    return 0
  end
  local found = redis.pcall('GETRANGE', message_prefix .. known, '0', '159') -- fails if the slot is half moved
  local id = type(found) == 'string' and messages.identity(found)
  if not id then
    return 1
  elseif id ~= messages.identity(head) then
    return 0
  end
  return messages.has_content(message_prefix .. known, head, content_at(head)) == false and 2 or 1
end

-- If nobody on this node has received the first notification of a call, those of its other messages are one without a
-- body, for subscribers on replicas: nobody can subscribe meanwhile.
local told, receivers = true, nil
epoch = epoch or new_epoch
local reply = clock and {'OK'} or {'CREATED'}
for i = 4, #KEYS do
  local next, head, overwrite = last < clocks.MAX and last + 1 or -clocks.MAX, ARGV[i + 9], not clock and i == 4
  local at = format('%d', next)
  local known = not overwrite and call('SET', KEYS[i], at, 'PXAT', message_ends, 'NX', 'GET')
  local repeated = known and duplicate(known, head) or 0
  if overwrite or known and repeated == 0 then
    call('SET', KEYS[i], at, 'PXAT', message_ends)
  end
  reply[2 * i - 6], reply[2 * i - 5] = repeated > 0 and known or at, repeated
  if repeated == 0 then
    local message = head .. tail
    call('SET', message_prefix .. at, message, 'PXAT', message_ends)
    if max_messages > 0 then
      call('DEL', message_prefix .. format('%d', clocks.sub(next, max_messages)))
    end
    if plain ~= '' then
      call('PUBLISH', plain, string.sub(head, content_at(head)))
    end
    told = separate and receivers ~= 0
    if told then
      local notice = epoch .. ' ' .. at
      receivers = call('SPUBLISH', topic, #message <= notify_bytes and notice .. ' ' .. message or notice)
    end
    last = next
  end
end

if last ~= clock then
  local clock_ends = math.max(ends, life)
  if due then
    local spare_ends = format('%d', clock_ends + math.floor(ttl_ms / 10))
    call('SET', epoch_key, epoch, 'PXAT', spare_ends)
    call('PEXPIREAT', subs_key, spare_ends)
  end
  local at = format('%d', last)
  call('SET', clock_key, at, 'PXAT', format('%d', clock_ends))
  -- A batch has one notification without a body, since whoever waits for its first message fetches the others, too.
  if not told then
    call('SPUBLISH', topic, epoch .. ' ' .. at)
  end
end
return reply
