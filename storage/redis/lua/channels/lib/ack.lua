-- ack.lua checks a receipt or a position, and moves the mark.

local ack = {}

-- matches reports whether the receipt's message can have been at the receipt's clock: its dedup record has that clock,
-- or the message is there, or both have expired. The record of a trimmed message stays until the message would have
-- expired. Only the start of the message is read, which has the ID.
function ack.matches(keys, receipt, clock, max_messages)
  local record = receipt.id ~= '' and redis.call('GET', keys.record)
  if receipt.id == '' or record == receipt.at then
    return true
  end
  local head = redis.call('GETRANGE', keys.message, '0', '159')
  if head ~= '' then
    local id = string.match(head, '^%s*{%s*"id"%s*:%s*"([^"]*)"')
    return not id or id == receipt.id
  end
  return not record and (max_messages == 0 or clocks.distance(receipt.clock, clock) < max_messages)
end

-- reached returns the clock of a position, which has the fields of a receipt, if it is of the channel's history and
-- after the mark, unless that is nil. Otherwise it returns nil.
function ack.reached(keys, position, max_messages, epoch, mark, clock)
  if position.epoch ~= epoch or not clocks.behind(position.clock, clock)
    or mark and not clocks.between(mark, position.clock, clock)
    or not ack.matches(keys, position, clock, max_messages) then
    return nil
  end
  return position.clock
end

-- apply moves the mark to the receipt's clock and renews it for life_ms. It returns OK, STALE if the mark is there or
-- past it, or why the receipt is refused; and after OK and STALE the channel's clock and the mark.
function ack.apply(keys, receipt, max_messages, life_ms)
  local clock, epoch, mark = channel.position(keys.clock, keys.epoch, keys.mark)
  if not mark then
    return 'NO_SUBSCRIBER'
  elseif receipt.epoch ~= epoch then
    return 'EPOCH'
  elseif clocks.behind(receipt.clock, mark) then
    return 'STALE', clock, mark
  elseif not clocks.between(mark, receipt.clock, clock) then
    return 'AHEAD'
  elseif not ack.matches(keys, receipt, clock, max_messages) then
    return 'SUPERSEDED'
  end
  redis.call('SET', keys.mark, receipt.at, 'PXAT', channel.extend_mark(keys, life_ms))
  return 'OK', clock, receipt.clock
end
