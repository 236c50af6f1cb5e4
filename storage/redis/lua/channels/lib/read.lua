-- read.lua reads messages, and passes over those that are gone: a few one by one, many at once.

-- define: read
-- uses: clock.MAX clock.add clock.distance clock.show clock.sub gap.key_at gap.oldest_in slot.undeclared
-- read reads what follows a mark, within the limits of a log, but always one message. It returns the clock up to which it has
-- read, how many messages were gone, and the rest: clock, messages, clock, messages, … with the clock of the first of the
-- messages that follow, and false for each that is gone. Copying a message into a script takes Redis time, so it reads as
-- many at a time as are expected to fit, at most 16: by the length of the first message, then by the average length.
local function read(log, mark, clock)
  local at, unread, expired, found, count, bytes = mark, distance(mark, clock), 0, {}, 0, 0
  if log.keeps > 0 and unread > log.keeps then
    at, expired = sub(clock, log.keeps), unread - log.keeps
  end
  while at ~= clock and count < log.count do
    local size, keys, first = math.min(16, log.count - count, distance(at, clock)), {}, add(at, 1)
    if size > 1 then
      local length = count > 0 and bytes / count or undeclared('STRLEN', key_at(log, first))
      size = math.min(size, math.max(1, math.ceil((log.bytes - bytes) / math.max(1, length))))
    end
    local next, before = first, count
    for i = 1, size do
      keys[i], next = string.format('%s%d', log.prefix, next), next < MAX and next + 1 or -MAX
    end
    keys[size + 1] = log.here
    local some = undeclared('MGET', unpack(keys))
    some[size + 1] = nil
    for i = 1, size do
      local message = some[i]
      if not message then
        expired = expired + 1
      elseif count > 0 and bytes + #message > log.bytes then
        for gone = size, i, -1 do
          some[gone] = nil
        end
        break
      else
        count, bytes = count + 1, bytes + #message
      end
      at = at < MAX and at + 1 or -MAX
    end
    if count > before then
      found[#found + 1], found[#found + 2] = show(first), some
    elseif at ~= clock and #some == size then
      local skip = (oldest_in(log, at, clock) or distance(at, clock) + 1) - 1
      at, expired = add(at, skip), expired + skip
    end
    if #some < size then
      break
    end
  end
  return at, expired, found
end
