-- ack.lua judges a receipt and moves the mark. The key of the message at the receipt's clock is read only at its
-- head, where its ID is.
local ID_HEAD = '^%s*{%s*"id"%s*:%s*"([^"]*)"'

local function same_message(message_key, fingerprint)
  local head = redis.call('GETRANGE', message_key, 0, 159)
  local id = fingerprint ~= '' and string.match(head, ID_HEAD)
  return not id or string.sub(redis.sha1hex(id), 1, 16) == fingerprint
end

-- acknowledge moves the mark to acked and gives OK, or STALE where the mark is there already, or says why not.
local function acknowledge(at, receipt, keys)
  if not at.mark then
    return 'NO_SUBSCRIBER'
  elseif receipt.epoch ~= at.epoch then
    return 'EPOCH'
  elseif behind(receipt.clock, at.mark) then
    return 'STALE'
  elseif not between(at.mark, receipt.clock, at.clock) then
    return 'AHEAD'
  elseif not same_message(keys.message, receipt.fingerprint) then
    return 'SUPERSEDED'
  end
  redis.call('SET', keys.mark, show(receipt.clock), 'KEEPTTL')
  return 'OK'
end
