-- ticket.lua tells where a ticket stands.

-- stands gives a ticket's status, the end of its life while it waits, its value and its assignment, or nil where
-- there is no ticket. A ticket that waits is in expiries; any other one is told by what it has become.
local function stands(now_ms, id, keys)
  local found = redis.call('MGET', keys.ticket, keys.assignment)
  local value, assignment = found[1], found[2]
  if not value then
    return nil
  end
  local expires, status = redis.call('ZSCORE', keys.expiries, id), 'EXPIRED'
  if expires and tonumber(expires) > now_ms then
    local held = redis.call('ZSCORE', keys.proposed, id)
    status = held and tonumber(held) > now_ms and 'PENDING' or 'SEARCHING'
  elseif assignment and not expires then
    status = 'MATCH_FOUND'
  elseif string.sub(value, 1, 1) == 'C' then
    status = 'CANCELLED'
  end
  return status, expires or '', value, assignment or ''
end
