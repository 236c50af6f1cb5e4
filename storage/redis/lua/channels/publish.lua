#!lua
-- publish.lua appends messages to a channel, all or none, in order. A message whose ID has a dedup record changes
-- nothing. If the channel does not exist, a subscriber can be created with it, whose mark is before the messages.
--
-- KEYS[1]  clock    string  the last clock given out
-- KEYS[2]  epoch    string  ULID of this life of the channel
-- KEYS[3]  subs     set     names of subscribers
-- KEYS[4…] records  string  dedup record of each message, in order: the clock that its ID got, and in a life with a TTL
--                           of its own, which records can outlive, a space and its epoch
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
-- ARGV[13]  options         string  JSON object of what few publishes have; "": nothing. See below
-- ARGV[14…] heads           string  each message without its time and closing brace: {"id":"…","content":…
--
-- The options are: close (true: nothing can be published after the messages, of which there may be none), order (text,
-- which must be after that of the last publish with an order), producers (a list with one for each separate message, or
-- with that of the batch: id, epoch and sequence; {}: none), and create (the properties of the life to begin: there
-- must be no channel, and there may be no messages).
--
-- The keys of messages, of the mark and of the producers are not declared: the clocks are known only here, and while
-- the slot is half moved, Redis would refuse duplicates too if a declared mark did not exist. Redis refuses new
-- messages then, because their records are missing.
--
-- Returns {"OK", life, clock, result, clock, result, …}, or {"CREATED", …} likewise if it created the channel. `life`
-- is the value of the epoch's key. A result is 0 for a new message, 1 for a duplicate, 2 for one whose content or type
-- differs from that of the message at the clock, or why nothing was written of a separate message, or of all: CLOSED,
-- TYPE or ORDER, for which the clock is the channel's, or GAP, FENCED, START or MANY of a producer, for which it is the
-- expected sequence, the producer's epoch, or 0. After the clock of a publish that its producer repeats there is a
-- space and the producer's last sequence. A call without messages has one result, and the channel's clock. Returns
-- {"EXISTS", life, clock} if there is a channel but must be none, {"NO_CHANNEL"}, {"LIFE"} if a later life has begun,
-- {"AGAIN"} if the call has to be repeated, or {"MOVING"} if the slot is half moved.
-- Safe to run twice: yes, the second run finds the dedup records, and the producer's last publish.
local clock_key, epoch_key, subs_key, message_prefix, mark_prefix = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local subscriber, ttl_ms, new_epoch, last_epoch = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local max_messages, topic, notify_bytes, plain = tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9]), ARGV[10]
local separate, deleted_key, options = ARGV[11] == '1', ARGV[12], ARGV[13]
local call, format, may = redis.call, string.format, redis.acl_check_cmd

local clock, epoch, _, properties, value = channel.position(clock_key, epoch_key)
epoch = clock and epoch ~= channel.NO_EPOCH and epoch
options = options ~= '' and cjson.decode(options)
if last_epoch ~= '' and epoch and epoch > last_epoch then
  return {'LIFE'}
elseif new_epoch == '' and not epoch then
  return {'NO_CHANNEL'}
elseif options and options.create then
  if clock then
    if epoch then
      call('SET', epoch_key, value, 'KEEPTTL') -- a write that replicas can be waited for
    end
    return {'EXISTS', value, format('%d', clock)}
  end
  properties = options.create
end

-- A message never expires before an earlier one, the clock never before a message unless the channel has a TTL of its
-- own, the epoch, the subs and the producers never before the clock. These get a tenth of the TTL more, so that they
-- are renewed once in that time instead of with each publish.
local had, now = channel.expiry(clock and clock_key)
local ends = now + ttl_ms
local clock_ends = ends
if properties then
  clock_ends = channel.ending(properties, now + channel.ttl(properties, ttl_ms))
  ends = channel.ending(properties, now + math.max(ttl_ms, channel.ttl(properties, ttl_ms)))
end
local due = not epoch or had < clock_ends and call('PEXPIRETIME', epoch_key) < clock_ends
if clock and (had > ends or had < 0 or properties and properties.ttl) then
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

local ok, writers
if options and (options.producers or options.order) then
  local key, ids = channel.producers_key(clock_key), {}
  acl.require(key, 'HMGET', 'HLEN', 'HSET', 'DEL', 'PEXPIREAT')
  for _, producer in ipairs(options.producers or {}) do
    ids[#ids + 1] = producer.id or nil
  end
  ok, writers = slot.try(producers.read, clock_key, key, epoch or new_epoch, ids)
  if not ok then
    return {'MOVING'}
  end
end

-- If the clock is gone, existing dedup records were left by an eviction in an earlier life. The first one is
-- overwritten.
if not clock and not channel.clear(subs_key, mark_prefix, unpack(KEYS, 5)) then
  return {'AGAIN'}
end
local last = clock or channel.deleted(deleted_key) or 0

-- content_at returns where the content of a head begins. An ID has no quotes, so it follows the first occurrence of its
-- name.
local function content_at(head)
  local _, before = string.find(head, '"content":', 1, true)
  return before + 1
end

-- record_end follows the clock in the dedup records of this life.
local record_end = properties and properties.ttl and ' ' .. (epoch or new_epoch) or ''

-- recorded returns the clock of a dedup record, as text, or nil if the record is of another life.
local function recorded(record)
  local at, of = string.match(record or '', '^(-?%d+) ?(.*)$')
  return (of == '' or of == epoch) and at or nil
end

-- duplicate returns 0 if the clock of a dedup record isn't of this history, 2 if the message at it has another
-- content than the head, and otherwise 1. It is of this history if the message at it has the ID, or is gone; others
-- are damaged, or of a life that was deleted or evicted.
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

-- media returns a media type without its parameters.
local function media(text)
  return string.lower(string.match(text, '^%s*([^;%s]*)'))
end

-- refused returns why a message or a batch is refused, and the clock or the number that goes with it.
local function refused(producer, head)
  local why, number = nil, last
  if properties and properties.closed then
    why = 'CLOSED'
    local by = producer and properties.by
    if not head and not producer then
      why, number = 'REPEATED', nil
    elseif by and by[1] == producer.id and by[2] == format('%d', producer.epoch)
      and by[3] == format('%d', producer.sequence) then
      why, number = 'REPEATED', producer.sequence
    end
  elseif properties and properties.type and head then
    local own = messages.type(string.sub(head, 1, content_at(head) - 1)) or 'application/json'
    why = media(own) ~= media(properties.type) and 'TYPE' or nil
  end
  if not why and producer then
    why, number = producers.check(writers, producer)
    if why == 'REPEATED' and not head then
      why, number = 'GAP', number + 1 -- it repeats a publish that hasn't closed the channel
    end
  end
  local order = options and options.order
  if not why and order and writers.order and not producers.is_after(order, writers.order) then
    why, number = 'ORDER', last
  end
  return why, number
end

-- answer appends to the reply: for a publish that is refused for a reason whether it is a duplicate all the same.
local reply = clock and {'OK', false} or {'CREATED', false}
local function answer(at, result)
  reply[#reply + 1], reply[#reply + 2] = at, result
end
local function refuse(why, number, producer, record, head)
  local known = record and (why == 'REPEATED' or why == 'CLOSED' or why == 'ORDER') and recorded(call('GET', record))
  local result = known and duplicate(known, head) or 0
  if why ~= 'REPEATED' then
    answer(result > 0 and known or format('%d', number), result > 0 and tostring(result) or why)
    return
  end
  local before = producer and writers.at[producer.id]
  local at = result > 0 and known or before and before.clock or format('%d', last)
  answer(number and format('%s %d', at, number) or at, tostring(math.max(result, 1)))
end

-- If nobody on this node has received the first notification of a call, those of its other messages are one without a
-- body, for subscribers on replicas: nobody can subscribe meanwhile.
local told, receivers = true, nil
if not epoch then
  epoch, value = new_epoch, new_epoch
end
local conditional, begins = options or properties, last
local producer, why, number
if conditional and not (separate and #KEYS > 3) then
  producer = options and options.producers and options.producers[1]
  for i = 4, math.max(4, #KEYS) do
    if not why then
      why, number = refused(producer, ARGV[i + 10])
    end
  end
end
for i = 4, #KEYS do
  local next, head, overwrite = last < clocks.MAX and last + 1 or -clocks.MAX, ARGV[i + 10], not clock and i == 4
  local at = format('%d', next)
  if conditional and separate then
    producer = options and options.producers and options.producers[i - 3]
    producer = producer and producer.id and producer
    why, number = refused(producer, head)
  end
  if why then
    refuse(why, number, producer, KEYS[i], head)
  else
    local record = at .. record_end
    local found = not overwrite and call('SET', KEYS[i], record, 'PXAT', message_ends, 'NX', 'GET')
    local known = found and recorded(found)
    local repeated = known and duplicate(known, head) or 0
    if overwrite or found and repeated == 0 then
      call('SET', KEYS[i], record, 'PXAT', message_ends)
    end
    reply[2 * i - 5], reply[2 * i - 4] = repeated > 0 and known or at, tostring(repeated)
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
    if producer then
      producers.accept(writers, producer, reply[2 * i - 5])
    end
  end
end

local closes = false
if options and not why then
  if #KEYS == 3 then
    answer(format('%d', last), '0')
    if producer then
      producers.accept(writers, producer, format('%d', last))
    end
  end
  if options.order then
    writers.changed.order = options.order
  end
  closes = options.close
elseif why and #KEYS == 3 then
  refuse(why, number, producer)
  if why == 'REPEATED' then
    call('SET', epoch_key, value, 'KEEPTTL') -- a write that replicas can be waited for
  end
end

local wrote = writers and next(writers.changed)
if last ~= clock and not (why and not clock and last == begins) or closes or wrote then
  clock_ends = math.max(clock_ends, had)
  local spare = math.floor(channel.ttl(properties, ttl_ms) / 10)
  local spare_ends = format('%d', channel.ending(properties, clock_ends + spare))
  local changed = closes or options and options.create or wrote and not (properties and properties.producers)
  if changed then
    properties = properties or {}
    properties.closed = closes and true or properties.closed
    properties.by = closes and producer
      and {producer.id, format('%d', producer.epoch), format('%d', producer.sequence)} or properties.by
    properties.producers = wrote and true or properties.producers
    if not clock and begins ~= 0 then
      properties.first = format('%d', begins)
    end
    value = channel.life_value(epoch, properties)
  end
  if mark_key then
    call('SADD', subs_key, subscriber)
    call('SET', mark_key, format('%d', begins), 'PXAT', format('%d', clock_ends))
  end
  if due then
    call('SET', epoch_key, value, 'PXAT', spare_ends)
    call('PEXPIREAT', subs_key, spare_ends)
  elseif changed then
    call('SET', epoch_key, value, 'KEEPTTL')
  end
  if due and not wrote then
    channel.extend_producers(clock_key, properties, spare_ends)
  end
  local at = format('%d', last)
  call('SET', clock_key, at, 'PXAT', format('%d', clock_ends))
  if wrote then
    producers.write(writers, format('%d', math.max(tonumber(spare_ends), call('PEXPIRETIME', epoch_key))))
  end
  if closes then
    call('SPUBLISH', topic, epoch .. ' ' .. at .. ' $')
  elseif not told then
    -- A batch has one notification without a body, since whoever waits for its first message fetches the others, too.
    call('SPUBLISH', topic, epoch .. ' ' .. at)
  end
end
reply[2] = value
return reply
