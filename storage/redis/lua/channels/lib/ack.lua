-- ack.lua judges a receipt and moves the mark. The key of the message at the receipt's clock is read only at its
-- head, where its ID is.

-- define: ID_HEAD
local ID_HEAD = '^%s*{%s*"id"%s*:%s*"([^"]*)"'

-- define: held
-- uses: ack.ID_HEAD clock.distance
-- held reports whether the receipt's message can have been at its clock. It is there; or, where the message is gone, its
-- dedup record says so; or both are gone by the end of their life. A message that was trimmed has its record until then.
local function held(at, receipt, keys, max_messages)
  if receipt.id == '' then
    return true
  end
  local head = redis.call('GETRANGE', keys.message, 0, 159)
  if head ~= '' then
    local id = string.match(head, ID_HEAD)
    return not id or id == receipt.id
  end
  local record = redis.call('GET', keys.record)
  if record then
    return tonumber(record) == receipt.clock
  end
  return max_messages == 0 or distance(receipt.clock, at.clock) < max_messages
end

-- define: judge
-- uses: ack.held clock.behind clock.between
-- judge returns OK where the mark is to move, STALE where it is there already, or why the receipt is refused.
local function judge(at, receipt, keys, max_messages)
  if not at.mark then
    return 'NO_SUBSCRIBER'
  elseif receipt.epoch ~= at.epoch then
    return 'EPOCH'
  elseif behind(receipt.clock, at.mark) then
    return 'STALE'
  elseif not between(at.mark, receipt.clock, at.clock) then
    return 'AHEAD'
  elseif not held(at, receipt, keys, max_messages) then
    return 'SUPERSEDED'
  end
  return 'OK'
end

-- define: move
-- uses: clock.show life.whole
-- move moves the mark, and renews it for so long.
local function move(keys, clock, life_ms)
  redis.call('SET', keys.mark, show(clock), 'PXAT', whole(keys, life_ms))
end
