-- read.lua reads messages, and passes over those that are gone: a few one by one, many at once.
--
-- It reads FIRST messages, and from then on as many at a time as are expected to fit, at most CHUNK: each copy of a
-- message into a script takes Redis time.

-- define: FIRST
local FIRST = 4

-- define: CHUNK
local CHUNK = 16

-- define: window
-- uses: clock.distance clock.sub
-- window returns where reading starts and how many messages lie before it that the channel doesn't keep any more.
local function window(mark, clock, max_messages)
  local unread = distance(mark, clock)
  if max_messages > 0 and unread > max_messages then
    return sub(clock, max_messages), unread - max_messages
  end
  return mark, 0
end

-- define: chunk_size
-- uses: read.CHUNK read.FIRST
-- chunk_size returns how many messages to read after so many.
local function chunk_size(count, bytes, limits)
  if count == 0 then
    return math.min(FIRST, limits.count)
  end
  local fit = math.ceil((limits.bytes - bytes) * count / math.max(bytes, 1))
  return math.min(CHUNK, math.max(fit, 1), limits.count - count)
end

-- define: chunk
-- uses: clock.add gap.key_at slot.undeclared
local function chunk(log, at, n)
  local keys = {}
  for i = 1, n do
    keys[i] = key_at(log, add(at, i))
  end
  local found = undeclared('MGET', log.here, unpack(keys))
  table.remove(found, 1)
  return found
end

-- define: read
-- uses: clock.add clock.distance clock.show gap.oldest_in read.chunk read.chunk_size read.window
-- read returns the clock up to which it has read, how many messages were gone, and the rest as clock, message,
-- clock, message, …
local function read(log, mark, clock, limits)
  local at, expired = window(mark, clock, limits.messages)
  local found, count, bytes = {}, 0, 0
  while at ~= clock and count < limits.count do
    local size = math.min(chunk_size(count, bytes, limits), distance(at, clock))
    local gone = 0
    for _, message in ipairs(chunk(log, at, size)) do
      if message then
        if count > 0 and bytes + #message > limits.bytes then
          return at, expired + gone, found
        end
        count, bytes = count + 1, bytes + #message
        found[2 * count - 1], found[2 * count] = show(add(at, 1)), message
      else
        gone = gone + 1
      end
      at = add(at, 1)
    end
    expired = expired + gone
    if gone == size and at ~= clock then
      local skip = (oldest_in(log, at, clock) or distance(at, clock) + 1) - 1
      at, expired = add(at, skip), expired + skip
    end
  end
  return at, expired, found
end
