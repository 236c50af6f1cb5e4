-- messages.lua reads a channel's messages, whose keys scripts cannot declare. A message never expires before an earlier
-- one, so that a binary search finds the oldest one alive.
--
-- A log is a table: prefix is what the keys of messages start with, here is a declared key that exists, for slot.read.
-- For messages.beginning it also has keeps (messages that the channel keeps, 0 for no limit), and for messages.read
-- also the limits count (messages), bytes (of messages) and least (messages to read even if they have more bytes: 0 or
-- 1).

local messages = {}

-- key returns the key of the message at a clock.
function messages.key(log, clock)
  return string.format('%s%d', log.prefix, clock)
end

-- alive reports whether the message at a clock exists.
function messages.alive(log, clock)
  return slot.read('EXISTS', log.here, messages.key(log, clock)) == 2
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

-- beginning returns the clock after which reading begins: the channel's for "latest", that before the oldest message
-- alive for "earliest", or a clock itself.
function messages.beginning(log, from, clock)
  if from == 'earliest' then
    local steps = messages.oldest(log, clock, log.keeps > 0 and log.keeps or clocks.MAX)
    return steps and clocks.sub(clock, steps + 1) or clock
  end
  return from == 'latest' and clock or tonumber(from)
end

-- read reads the messages after a mark, within the limits of the log. It returns the clock up to which it has read, the
-- number of messages that have expired, and a list: clock, messages, clock, messages, …, with the clock of the first of
-- the messages and false for each that has expired. Copying messages into a script is expensive, so it reads at most 16
-- at a time, and no more than are expected to fit, by the length of the first one and then by the average.
function messages.read(log, mark, clock)
  local at, unread, expired, found, count, bytes = mark, clocks.distance(mark, clock), 0, {}, 0, 0
  if log.keeps > 0 and unread > log.keeps then
    at, expired = clocks.sub(clock, log.keeps), unread - log.keeps
  end
  while at ~= clock and count < log.count do
    local size, keys, first = math.min(16, log.count - count, clocks.distance(at, clock)), {}, clocks.add(at, 1)
    if size > 1 or log.least == 0 then
      local length = count > 0 and bytes / count or slot.read('STRLEN', messages.key(log, first))
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
  return at, expired, found
end
