#!lua
-- create.lua creates tickets that can be matched, each unless a ticket with its ID exists, in whatever status. It also
-- removes published entries from the outbox.
--
-- KEYS[1]   waiting      zset    IDs of waiting tickets, by creation, in microseconds
-- KEYS[2]   expiries     zset    the same IDs, by the ends of their lives, in milliseconds
-- KEYS[3]   proposed     zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[4]   changes      stream  tickets that were created or cancelled
-- KEYS[5]   outbox       stream  assignments to be published to their channels
-- KEYS[6]   director     string  the lease of the queue's director
-- KEYS[7]   listening    set     IDs of waiting tickets whose assignments have to be published
-- KEYS[8…]  ticket_keys  string  of each attempt the ticket and its assignment
--
-- ARGV[1]  nudges     string  sharded pub/sub channel of the queue
-- ARGV[2]  feed       string  sharded pub/sub channel of its director
-- ARGV[3]  delivered  int     number of the entries to remove from the outbox, which were published
-- ARGV[4…] texts      string  those entries; then of each attempt to create a ticket nine values:
--                             id           string  of the ticket
--                             ttl_ms       int     how long the ticket can be matched, unless it is renewed
--                             keep_ms      int     how long it can be read after that
--                             life_ms      int     how long it can be matched at most, however often it is renewed
--                             max_tickets  int     tickets that may wait, this one included; 0: no limit
--                             attempt      ULID    of the attempt
--                             epoch        ULID    of the life of its channel that the ticket begins; "": it begins
--                                                  none, and its ID is never used again
--                             channel      int     1: it has a channel, on which its assignment is published; else 0
--                             spec         string  what the player asks for
--
-- Returns {"OK", outgoing, {outcome, …}}: the length of the outbox, and in the order of the attempts {"CREATED",
-- created_us, expires_ms}, {"EXISTS", status, expires_ms or "", ticket, assignment or ""}, {"FULL"}, or {"UNDONE"} if
-- the attempt or its life was undone before. A waiting ticket belongs to this attempt from now on, and no earlier
-- attempt can undo it. Only CREATED changes anything else. Attempts with the same ID are decided in their order.
-- Safe to run twice: yes, the second run finds the tickets of its own attempts, which are CREATED again.
local waiting_key, expiries_key, proposed_key, changes_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local outbox_key, director_key, listening_key, ticket_keys = KEYS[5], KEYS[6], KEYS[7], batch.from(KEYS, 8)
local nudges, feed, delivered, texts = ARGV[1], ARGV[2], tonumber(ARGV[3]), batch.from(ARGV, 4)
local now, now_ms = time.now()

-- LARGE is the size of a ticket beyond which the changes do not repeat it: their reader reads its key.
local LARGE = 16384

-- read_attempts returns the attempts, in order. value is the ticket without the first letter and the time.
local function read_attempts()
  local attempts = {}
  for first = delivered + 1, #texts, 9 do
    local id, ttl_ms, keep_ms, life_ms, max_tickets, attempt, epoch, has_channel, spec = unpack(texts, first, first + 8)
    local at = #attempts + 1
    attempts[at] = {
      at = at, id = id, ttl_ms = tonumber(ttl_ms), keep_ms = tonumber(keep_ms), max_tickets = tonumber(max_tickets),
      attempt = attempt, epoch = epoch, has_channel = has_channel == '1',
      value = ' ' .. ttl_ms .. ' ' .. keep_ms .. ' ' .. life_ms .. ' ' .. attempt .. ' ' .. epoch .. ' ' .. spec,
      ticket = ticket_keys[2 * at - 1], assignment = ticket_keys[2 * at],
    }
  end
  return attempts
end

-- first_of_each divides attempts into the first one of each ID and the rest. In between it returns the values of the
-- tickets' keys and then of the director's.
local function first_of_each(attempts)
  local seen, firsts, keys, rest = {}, {}, {}, {}
  for _, attempt in ipairs(attempts) do
    if seen[attempt.id] then
      rest[#rest + 1] = attempt
    else
      seen[attempt.id], firsts[#firsts + 1], keys[#keys + 1] = true, attempt, attempt.ticket
    end
  end
  keys[#keys + 1] = director_key
  return firsts, redis.call('MGET', unpack(keys)), rest
end

-- existing returns the outcome of an attempt whose ticket's key has a value, or nil if it can create the ticket.
local function existing(attempt, value)
  if not value then
    return nil
  end
  local keys = {
    ticket = attempt.ticket, assignment = attempt.assignment, expiries = expiries_key, proposed = proposed_key,
  }
  local status, ends, found, assigned = ticket.state(now_ms, attempt.id, keys)
  if status then
    local made = ticket.adopt(attempt.ticket, found, status, attempt.attempt)
    return made and {'CREATED', made, ends} or {'EXISTS', status, ends, found, assigned}
  end
  if string.find(found, attempt.attempt, 1, true)
    or attempt.epoch ~= '' and string.find(found, attempt.epoch, 1, true) then
    return {'UNDONE'}
  end
end

local outgoing = redis.call('XLEN', outbox_key)
acl.require(changes_key, 'SADD', 'XADD', 'ZREM', 'PEXPIREAT', 'ZADD')
if delivered > 0 then
  redis.call('XDEL', outbox_key, unpack(texts, 1, delivered))
end
local news, outcomes, remaining, made, longest_ms = nil, {}, read_attempts(), 0, 0
while #remaining > 0 do
  local firsts, values, waiting, new = nil, nil, nil, {}
  firsts, values, remaining = first_of_each(remaining)
  news = news or changes.begin(now_ms, changes_key, values[#values], {nudges, feed})
  for i, attempt in ipairs(firsts) do
    local outcome = existing(attempt, values[i])
    if not outcome and attempt.max_tickets > 0 then
      waiting = waiting or redis.call('ZCOUNT', expiries_key, '(' .. time.decimal(now_ms), '+inf')
      outcome = waiting + #new >= attempt.max_tickets and {'FULL'} or nil
    end
    outcomes[attempt.at], new[#new + 1] = outcome, not outcome and attempt or nil
  end

  local created, expires, reused, listening = {}, {}, {}, {}
  for i, attempt in ipairs(new) do
    local us, id = now + made, attempt.id
    local ends = time.decimal(math.floor(us / 1000) + attempt.ttl_ms)
    local value = 'S' .. time.decimal(us) .. attempt.value
    redis.call('SET', attempt.ticket, value, 'PXAT', time.decimal(ends + attempt.keep_ms))
    local small = #value <= LARGE and value
    changes.append(news, id, {'expires', ends, 'ticket', small or ''}, small and ends .. ' ' .. #value .. ' ' .. value)
    created[2 * i - 1], created[2 * i], expires[2 * i - 1], expires[2 * i] = time.decimal(us), id, ends, id
    reused[#reused + 1] = attempt.epoch ~= '' and id or nil
    listening[#listening + 1] = attempt.has_channel and id or nil
    outcomes[attempt.at] = {'CREATED', time.decimal(us), ends}
    made, longest_ms = made + 1, math.max(longest_ms, attempt.ttl_ms)
  end
  -- Tickets of reused IDs may have left claims. Being in waiting and expiries comes last: that makes a ticket
  -- matchable.
  if #reused > 0 then
    redis.call('ZREM', proposed_key, unpack(reused))
  end
  if #listening > 0 then
    redis.call('SADD', listening_key, unpack(listening))
    time.prolong(now_ms, longest_ms + time.DAY_MS, listening_key)
  end
  if #created > 0 then
    redis.call('ZADD', waiting_key, unpack(created))
    redis.call('ZADD', expiries_key, unpack(expires))
  end
end
if made > 0 then
  time.prolong(now_ms, longest_ms + time.DAY_MS, waiting_key, expiries_key, changes_key)
  changes.notify(news)
end
return {'OK', outgoing, outcomes}
