-- messages.lua reads and purges a channel's messages, whose keys scripts cannot declare. A message never expires before
-- an earlier one, and purges remove the oldest ones, so that a binary search finds the oldest one alive.
--
-- A log is a table: prefix is the prefix of the keys of messages, here is a declared key that exists, for slot.read.
-- For messages.beginning it also has keeps (messages that the channel keeps, 0 for no limit), and for messages.read
-- also purged (the key of the purged clocks) and the limits count (messages), bytes (of messages) and least (messages
-- to read even if they have more bytes: 0 or 1).

local messages = {}

-- key returns the key of the message at a clock.
function messages.key(log, clock)
  return string.format('%s%d', log.prefix, clock)
end

-- alive reports whether the message at a clock exists.
function messages.alive(log, clock)
  return slot.read('EXISTS', log.here, messages.key(log, clock)) == 2
end

-- identity returns the ID of a message and the write that stored it, by the first 160 bytes of its value. Each is nil
-- if it is not readable; the predecessor's messages have no write.
function messages.identity(head)
  return string.match(head, '^%s*{%s*"id"%s*:%s*"([^"]*)"'), string.match(head, '^{"id":"[^"]*","write":"([^"]*)"')
end

-- PIECE is how many bytes of contents are compared at a time: a script makes small strings much faster than large ones.
messages.PIECE = 16384

-- HEAD is how many bytes precede the content of a message at most.
messages.HEAD = 400

-- type returns the content type of a message by all that precedes its content, or nil if that is JSON. No value there
-- has quotes in it.
function messages.type(head)
  return string.match(head, '","type":"([^"]*)","content":$')
end

-- has_content reports whether the content of the message at a key, and its type, are those of a text, the beginning of
-- another message, whose content is its end from a position on. It returns nil if the message at the key has no write:
-- the predecessor stored it, and its members may be in any order.
function messages.has_content(key, text, from)
  local head = redis.call('GETRANGE', key, '0', messages.HEAD - 1)
  local _, write = messages.identity(head)
  local _, before = string.find(head, '"content":', 1, true)
  local tail = string.match(redis.call('GETRANGE', key, '-24', '-1'), ',"at":%d+}$')
  if not write or not before or not tail then
    return nil
  elseif messages.type(string.sub(head, 1, before)) ~= messages.type(string.sub(text, 1, from - 1))
    or redis.call('STRLEN', key) ~= before + #text - from + 1 + #tail then
    return false
  end
  for at = from, #text, messages.PIECE do
    local piece = string.sub(text, at, at + messages.PIECE - 1)
    local start = before + at - from
    if redis.call('GETRANGE', key, start, start + #piece - 1) ~= piece then
      return false
    end
  end
  return true
end

-- published_at returns the time of a message in milliseconds, as text, by the last 24 bytes of its value. It is nil if
-- the predecessor stored the message.
function messages.published_at(tail)
  return string.match(tail, ',"at":(%d+)}$')
end

-- last returns the message at a clock as a list: ID, write, time. The list is empty if the message is gone, and an item
-- is empty if it is not readable.
function messages.last(log, clock)
  if not messages.alive(log, clock) then
    return {}
  end
  local key = messages.key(log, clock)
  local id, write = messages.identity(slot.read('GETRANGE', key, '0', '159') or '')
  return {id or '', write or '', messages.published_at(slot.read('GETRANGE', key, '-24', '-1') or '') or ''}
end

-- oldest_in returns the distance from mark to the oldest message alive in (mark, clock], or nil if there is none.
function messages.oldest_in(log, mark, clock)
  local low, high = 0, clocks.distance(mark, clock)
  if high == 0 or not messages.alive(log, clock) then
    return nil
  end
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if messages.alive(log, clocks.add(mark, middle)) then
      high = middle
    else
      low = middle
    end
  end
  return high
end

-- oldest returns the distance from the oldest message alive to the clock, at most limit - 1, or nil if there is none.
function messages.oldest(log, clock, limit)
  local step = 1
  while step < limit and messages.alive(log, clocks.sub(clock, step)) do
    step = step * 2
  end
  local reach = math.min(step, limit)
  local found = messages.oldest_in(log, clocks.sub(clock, reach), clock)
  return found and reach - found
end

-- earliest returns the clock before the oldest message alive, or the channel's clock if there is none.
function messages.earliest(log, clock)
  local steps = messages.oldest(log, clock, log.keeps > 0 and log.keeps or clocks.MAX)
  return steps and clocks.sub(clock, steps + 1) or clock
end

-- beginning returns the clock after which reading begins: the channel's for "latest", that before the oldest message
-- alive for "earliest", or a clock itself.
function messages.beginning(log, from, clock)
  if from == 'earliest' then
    return messages.earliest(log, clock)
  end
  return from == 'latest' and clock or tonumber(from)
end

-- since returns the clock before the first message after a mark that was published at a time in milliseconds or later.
-- The predecessor's messages have no time, and are taken for earlier ones.
function messages.since(log, mark, clock, time_ms)
  local low, high = 0, clocks.distance(mark, clock) + 1
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    local tail = slot.read('GETRANGE', messages.key(log, clocks.add(mark, middle)), '-24', '-1') or ''
    if (tonumber(messages.published_at(tail)) or 0) < time_ms then
      low = middle
    else
      high = middle
    end
  end
  return clocks.add(mark, low)
end

-- PURGED is how many messages a script purges: that takes Redis less than a millisecond.
messages.PURGED = 500

-- some returns the keys of the oldest messages alive up to a clock, PURGED at most, how many up to that clock remain
-- after them, and what purge needs of them. The log also has purged, the key of the purged clocks.
function messages.some(log, through, clock)
  local earliest, keys = messages.earliest(log, clock), {}
  local found = clocks.behind(through, earliest) and 0 or clocks.distance(earliest, through)
  for i = 1, math.min(found, messages.PURGED) do
    keys[i] = messages.key(log, clocks.add(earliest, i))
  end
  if #keys > 0 and slot.read('EXISTS', log.here, unpack(keys)) ~= #keys + 1 then
    error(slot.MOVING, 0)
  end
  local earlier = purged.range(slot.read('MGET', log.here, log.purged)[2])
  local first, last = clocks.add(earliest, 1), clocks.add(earliest, #keys)
  return keys, found - #keys, clocks.show(earlier or first) .. ' ' .. clocks.show(last)
end

-- purge removes messages, and records their clocks, value, for as long as the last of them would have lived, or for
-- ttl_ms if it had no end. Two purges make one record: between them are only messages that were alive then, or that the
-- channel's limit has removed.
function messages.purge(purged_key, keys, value, ttl_ms)
  local ends = redis.call('PEXPIRETIME', keys[#keys])
  if ends < 0 then
    redis.call('SET', purged_key, value, 'PX', clocks.show(ttl_ms))
  else
    redis.call('SET', purged_key, value, 'PXAT', clocks.show(ends))
  end
  redis.call('DEL', unpack(keys))
end

-- read reads the messages after a mark, within the limits of the log. It returns a table: through, the clock up to
-- which it has read, expired and purged, the numbers of messages that are gone, and found, a list: clock, messages,
-- clock, messages, …, with the clock of the first of the messages and false for each that is gone. Copying messages
-- into a script is expensive, so it reads at most 16 at a time, and no more than are expected to fit, by the length of
-- the first one and then by the average.
function messages.read(log, mark, clock)
  local at, unread, expired, found, count, bytes = mark, clocks.distance(mark, clock), 0, {}, 0, 0
  if log.keeps > 0 and unread > log.keeps then
    at, expired = clocks.sub(clock, log.keeps), unread - log.keeps
  end
  while at ~= clock and count < log.count do
    local size, keys, first = math.min(16, log.count - count, clocks.distance(at, clock)), {}, clocks.add(at, 1)
    if size > 1 or log.least == 0 then
      local length = count > 0 and bytes / count or slot.read('STRLEN', messages.key(log, first)) or 0
      if log.least == 0 and count == 0 and length > log.bytes then
        break
      end
      size = math.min(size, math.max(1, math.ceil((log.bytes - bytes) / math.max(1, length))))
    end
    local next, before = first, count
    for i = 1, size do
      keys[i], next = string.format('%s%d', log.prefix, next), next < clocks.MAX and next + 1 or -clocks.MAX
    end
    keys[size + 1] = log.here
    local some = slot.read('MGET', unpack(keys))
    some[size + 1] = nil
    for i = 1, size do
      local message = some[i]
      if not message then
        expired = expired + 1
      elseif count >= log.least and bytes + #message > log.bytes then
        for gone = size, i, -1 do
          some[gone] = nil
        end
        break
      else
        count, bytes = count + 1, bytes + #message
      end
      at = at < clocks.MAX and at + 1 or -clocks.MAX
    end
    if count > before then
      found[#found + 1], found[#found + 2] = clocks.show(first), some
    elseif at ~= clock and #some == size then
      local skip = (messages.oldest_in(log, at, clock) or clocks.distance(at, clock) + 1) - 1
      at, expired = clocks.add(at, skip), expired + skip
    end
    if #some < size then
      break
    end
  end
  local gone = expired > 0 and math.min(expired, purged.count(log, mark, at)) or 0
  return {through = at, expired = expired - gone, purged = gone, found = found}
end
