-- ticket.lua tells where a ticket stands.

-- stands gives a ticket's status, the end of its life while it waits, its value and its assignment. Where there is no
-- ticket it gives nil twice, and the attempts to make it that were undone, if any. A ticket that waits is in expiries;
-- any other one is told by what it has become.
local function stands(now_ms, id, keys)
  local found = redis.call('MGET', keys.ticket, keys.assignment)
  local value, assignment = found[1], found[2]
  local kind = value and string.sub(value, 1, 1)
  if not value or kind == 'U' then
    return nil, nil, value
  end
  local expires, status = redis.call('ZSCORE', keys.expiries, id), 'EXPIRED'
  if expires and tonumber(expires) > now_ms then
    local held = redis.call('ZSCORE', keys.proposed, id)
    status = held and tonumber(held) > now_ms and 'PENDING' or 'SEARCHING'
  elseif assignment and not expires then
    status = 'MATCH_FOUND'
  elseif kind == 'C' then
    status = 'CANCELLED'
  end
  return status, expires or '', value, assignment or ''
end
