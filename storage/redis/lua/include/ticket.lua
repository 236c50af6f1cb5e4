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

-- adopt makes a ticket that waits an attempt's own. Where it was that before it returns when the ticket was made.
local function adopt(ticket_key, value, status, attempt)
  local made, at, by = string.match(value, '^S(%d+) %d+ %d+ %d+ ()(%w+) ')
  if not at or (status ~= 'SEARCHING' and status ~= 'PENDING') then
    return nil
  elseif by == attempt then
    return made
  end
  redis.call('SETRANGE', ticket_key, at - 1, attempt)
end
