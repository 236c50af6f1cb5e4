-- creation.lua decides what becomes of attempts to make tickets.

local creation = {}

-- parse returns attempts, in their order.
function creation.parse(texts, keys)
  local attempts = {}
  for at = 1, #texts / 8 do
    local id, ttl, keep, life, max, names, listens, spec = unpack(texts, 8 * at - 7, 8 * at)
    attempts[at] = {
      at = at, id = id, ttl = tonumber(ttl), keep = tonumber(keep), max = tonumber(max), names = names,
      rest = ' ' .. ttl .. ' ' .. keep .. ' ' .. life .. ' ' .. names .. ' ' .. spec,
      ticket = keys[2 * at - 1], assignment = keys[2 * at],
      reused = string.sub(names, -1) ~= ' ', listens = listens ~= '',
    }
  end
  return attempts
end

-- divide divides attempts into the first one for each ID and the rest, and returns what the tickets' keys, and then
-- another one, hold in between.
function creation.divide(attempts, other)
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

-- settle returns the outcome of an attempt whose ticket's key holds a value, or nil if it can make the ticket.
function creation.settle(now_ms, attempt, expiries, proposed, value)
  if not value then
    return nil
  end
  local keys = {ticket = attempt.ticket, assignment = attempt.assignment, expiries = expiries, proposed = proposed}
  local status, ends, found, assigned = ticket.state(now_ms, attempt.id, keys)
  if status then
    local made = ticket.adopt(attempt.ticket, found, status, string.match(attempt.names, '^%w+'))
    return made and {'CREATED', made, ends} or {'EXISTS', status, ends, found, assigned}
  end
  for name in string.gmatch(attempt.names, '%w+') do
    if string.find(found, name, 1, true) then
      return {'UNDONE'}
    end
  end
end

-- enter makes new tickets matchable, which comes last. The lists are created and expires, scores and IDs, and the IDs
-- of those that listen, and of reused ones, which may have left claims. life_ms is that of those that listen.
function creation.enter(now_ms, keys, lists, life_ms)
  if #lists.reused > 0 then
    redis.call('ZREM', keys.proposed, unpack(lists.reused))
  end
  if #lists.listening > 0 then
    redis.call('SADD', keys.listening, unpack(lists.listening))
    time.prolong(now_ms, life_ms + time.DAY_MS, keys.listening)
  end
  if #lists.created > 0 then
    redis.call('ZADD', keys.waiting, unpack(lists.created))
    redis.call('ZADD', keys.expiries, unpack(lists.expires))
  end
end
