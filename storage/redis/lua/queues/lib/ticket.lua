-- ticket.lua reads the state of a ticket and changes its attempts.

local ticket = {}

-- KEEP matches the first bytes of a ticket's value, up to how long it can be read after its life, in milliseconds.
ticket.KEEP = '^[SD]%d+ %d+ (%d+) '

-- MAX_KEEP_MS bounds how long a ticket can be read that was taken out of its queue: nothing limits the number of those,
-- and assignmentTTL can be a hundred years.
ticket.MAX_KEEP_MS = time.DAY_MS

-- keep returns how long a ticket with a value can be read after it was taken out of its queue, in milliseconds.
function ticket.keep(value)
  return math.min(tonumber(string.match(value, ticket.KEEP) or 0), ticket.MAX_KEEP_MS)
end

-- state returns a ticket's status, the end of its life while it waits or is deindexed, its value and its assignment. If
-- there is no ticket it returns nil, nil and the undone attempts to create it, if any. A waiting ticket is in expiries;
-- the status of any other one follows from its value and its assignment. A deindexed one is cancelled when its life has
-- ended, which deindexing may have shortened.
function ticket.state(now_ms, id, keys)
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
  elseif kind == 'D' then
    local ends = redis.call('PEXPIRETIME', keys.ticket) - ticket.keep(value)
    status, expires = ends > now_ms and 'DEINDEXED' or 'CANCELLED', ends > now_ms and time.decimal(ends)
  end
  return status, expires or '', value, assignment or ''
end

-- ATTEMPTS matches a ticket's attempts: those that created it or found it. Each may have reported the ticket to its
-- client, so the ticket is undone only with the last of them. Beyond MAX_ATTEMPTS_LENGTH characters the word "more" is
-- added instead of an attempt, and the ticket is never undone.
ticket.ATTEMPTS = '^(S(%d+) %d+ %d+ %d+ )([%w,]+)()'

ticket.MAX_ATTEMPTS_LENGTH = 8 * 27

-- adopt adds an attempt to those of a waiting ticket. For its first attempt it returns when the ticket was created.
function ticket.adopt(ticket_key, value, status, attempt)
  local head, made, attempts, at = string.match(value, ticket.ATTEMPTS)
  if not head or (status ~= 'SEARCHING' and status ~= 'PENDING') then
    return nil
  elseif string.sub(attempts, 1, #attempt) == attempt then
    return made
  end
  local word = #attempts < ticket.MAX_ATTEMPTS_LENGTH and attempt or 'more'
  if not string.find(attempts, word, 1, true) then
    redis.call('SET', ticket_key, head .. attempts .. ',' .. word .. string.sub(value, at), 'KEEPTTL')
  end
end

-- disown removes an attempt from those of a ticket. If it is the only one, it returns true and changes nothing.
function ticket.disown(ticket_key, value, attempt)
  local head, _, attempts, at = string.match(value, ticket.ATTEMPTS)
  if not head or attempts == attempt then
    return head ~= nil
  end
  local remaining = string.gsub(',' .. attempts, ',' .. attempt, '')
  if #remaining <= #attempts then
    redis.call('SET', ticket_key, head .. string.sub(remaining, 2) .. string.sub(value, at), 'KEEPTTL')
  end
  return false
end
