-- ack.lua judges a receipt and moves the mark. The key of the message at the receipt's clock is read only at its
-- head, where its ID is.
local ID_HEAD = '^%s*{%s*"id"%s*:%s*"([^"]*)"'

local function same_message(message_key, fingerprint)
  local head = redis.call('GETRANGE', message_key, 0, 159)
  local id = fingerprint ~= '' and string.match(head, ID_HEAD)
  return not id or string.sub(redis.sha1hex(id), 1, 16) == fingerprint
end

-- judge returns OK where the mark is to move, STALE where it is there already, or why the receipt is refused.
local function judge(at, receipt, message_key)
  if not at.mark then
    return 'NO_SUBSCRIBER'
  elseif receipt.epoch ~= at.epoch then
    return 'EPOCH'
  elseif behind(receipt.clock, at.mark) then
    return 'STALE'
  elseif not between(at.mark, receipt.clock, at.clock) then
    return 'AHEAD'
  elseif not same_message(message_key, receipt.fingerprint) then
    return 'SUPERSEDED'
  end
  return 'OK'
end

-- move moves the mark, and renews it for so long.
local function move(keys, clock, life_ms)
  redis.call('SET', keys.mark, show(clock), 'PXAT', whole(keys, life_ms))
end
