-- ack.lua judges a receipt and moves the mark.

-- define: held
-- uses: clock.distance
-- held reports whether the receipt's message can have been at its clock. Its dedup record, which was written with it, has
-- that clock; or the message is there; or both are gone by the end of their life. A message that was trimmed has its record
-- until then. Only the head of the message's key is read, where the ID is.
local function held(keys, receipt, clock, max_messages)
  local record = receipt.id ~= '' and redis.call('GET', keys.record)
  if receipt.id == '' or record == receipt.at then
    return true
  end
  local head = redis.call('GETRANGE', keys.message, '0', '159')
  if head ~= '' then
    local id = string.match(head, '^%s*{%s*"id"%s*:%s*"([^"]*)"')
    return not id or id == receipt.id
  end
  return not record and (max_messages == 0 or distance(receipt.clock, clock) < max_messages)
end

-- define: acknowledge
-- uses: ack.held clock.behind clock.between life.position life.whole
-- acknowledge moves the mark to a receipt's clock, and renews it for so long. It returns OK, STALE if the mark was there
-- already, or why the receipt is refused; and the channel's clock.
local function acknowledge(keys, receipt, max_messages, life_ms)
  local clock, epoch, mark = position(keys.clock, keys.epoch, keys.mark)
  if not mark then
    return 'NO_SUBSCRIBER'
  elseif receipt.epoch ~= epoch then
    return 'EPOCH'
  elseif behind(receipt.clock, mark) then
    return 'STALE', clock, mark
  elseif not between(mark, receipt.clock, clock) then
    return 'AHEAD'
  elseif not held(keys, receipt, clock, max_messages) then
    return 'SUPERSEDED'
  end
  redis.call('SET', keys.mark, receipt.at, 'PXAT', whole(keys, life_ms))
  return 'OK', clock, receipt.clock
end
