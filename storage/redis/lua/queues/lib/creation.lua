-- creation.lua decides what becomes of attempts to make tickets.

-- define: parse
-- parse returns attempts, in their order.
local function parse(texts, keys)
  local attempts = {}
  for at = 1, #texts / 7 do
    local id, ttl, keep, life, max, names, spec = unpack(texts, 7 * at - 6, 7 * at)
    attempts[at] = {
      at = at, id = id, ttl = tonumber(ttl), keep = tonumber(keep), max = tonumber(max), names = names,
      rest = ' ' .. ttl .. ' ' .. keep .. ' ' .. life .. ' ' .. names .. ' ' .. spec,
      ticket = keys[2 * at - 1], assignment = keys[2 * at], reused = string.sub(names, -1) ~= ' ',
    }
  end
  return attempts
end

-- define: divide
-- divide divides attempts into the first one for each ID and the rest, and returns what the tickets' keys, and then another one,
-- hold in between.
local function divide(attempts, other)
  local seen, firsts, keys, rest = {}, {}, {}, {}
  for _, attempt in ipairs(attempts) do
    if seen[attempt.id] then
      rest[#rest + 1] = attempt
    else
      seen[attempt.id], firsts[#firsts + 1], keys[#keys + 1] = true, attempt, attempt.ticket
    end
  end
  keys[#keys + 1] = other
  return firsts, redis.call('MGET', unpack(keys)), rest
end

-- define: settle
-- uses: ticket.adopt ticket.state
-- settle returns the outcome of an attempt whose ticket's key holds a value, or nil if it can make the ticket.
local function settle(now_ms, attempt, expiries, proposed, value)
  if not value then
    return nil
  end
  local keys = {ticket = attempt.ticket, assignment = attempt.assignment, expiries = expiries, proposed = proposed}
  local status, ends, found, assigned = state(now_ms, attempt.id, keys)
  if status then
    local made = adopt(attempt.ticket, found, status, string.match(attempt.names, '^%w+'))
    return made and {'CREATED', made, ends} or {'EXISTS', status, ends, found, assigned}
  end
  for name in string.gmatch(attempt.names, '%w+') do
    if string.find(found, name, 1, true) then
      return {'UNDONE'}
    end
  end
end
