-- ack.lua checks a receipt or a position, and moves the mark.

local ack = {}

-- A receipt, or a position, is a table: at (its clock as text), clock, epoch, and id, write and ends of the message at
-- the clock: its ID, the write that stored it, and when it expires by the policy, in milliseconds; each is empty if it
-- is not known.

-- matches reports whether the message at the receipt's clock is the one that the receipt is for. A message that is gone
-- was trimmed or purged, if its dedup record is there, which ends when the message would have expired; or it is past
-- that end. A receipt for no message is only valid if there is none: it was gone when the receipt was made. Receipts
-- for the predecessor's messages have no end: if both are gone, their message has expired, unless it may have been
-- trimmed.
function ack.matches(keys, receipt, clock, max_messages)
  local head = slot.value(redis.pcall('GETRANGE', keys.message, '0', '159')) or ''
  if head ~= '' then
    local id, write = messages.identity(head)
    if receipt.write ~= '' then
      return write == receipt.write
    end
    return not id and receipt.id == '' or id == receipt.id
  elseif receipt.id == '' then
    return true
  end
  local record = redis.call('GET', keys.record)
  if record then
    return string.match(record, '^[^ ]*') == receipt.at
      and (receipt.ends == '' or redis.call('PEXPIRETIME', keys.record) == tonumber(receipt.ends))
  end
  if receipt.ends ~= '' then
    local _, now_ms = channel.expiry(keys.clock)
    return now_ms >= tonumber(receipt.ends)
  end
  return max_messages == 0 or clocks.distance(receipt.clock, clock) < max_messages
end

-- known reports whether a position is of the channel's history. One without a message may be that of a mark. The write
-- of a position whose message isn't known is "*".
function ack.known(keys, position, max_messages, epoch, mark, clock)
  return position.epoch == epoch and clocks.behind(position.clock, clock)
    and (position.write == '*' or position.id .. position.write == '' and mark and clocks.behind(position.clock, mark)
      or ack.matches(keys, position, clock, max_messages))
end

-- expected_end returns the end of a receipt's message by the policy; '' if the channel has properties that change it.
function ack.expected_end(properties, ends)
  return properties and (properties.ttl or properties.ends) and '' or ends
end

-- apply moves the mark to the receipt's clock and renews it for the channel's TTL and wait_ms. It returns OK, STALE if
-- the mark is there or past it, or why the receipt is refused; and after OK and STALE the channel's clock, the mark,
-- the properties and the value of the epoch's key.
function ack.apply(keys, receipt, max_messages, ttl_ms, wait_ms)
  local clock, epoch, mark, properties, value = channel.position(keys.clock, keys.epoch, keys.mark)
  receipt.ends = ack.expected_end(properties, receipt.ends)
  if not mark then
    return 'NO_SUBSCRIBER'
  elseif receipt.epoch ~= epoch then
    return 'EPOCH'
  elseif clocks.behind(receipt.clock, mark) then
    return 'STALE', clock, mark, properties, value
  elseif not clocks.between(mark, receipt.clock, clock) then
    return 'AHEAD'
  elseif not ack.matches(keys, receipt, clock, max_messages) then
    return 'SUPERSEDED'
  end
  local life_ms = channel.ttl(properties, ttl_ms) + wait_ms
  redis.call('SET', keys.mark, receipt.at, 'PXAT', channel.extend_mark(keys, properties, life_ms))
  return 'OK', clock, receipt.clock, properties, value
end
