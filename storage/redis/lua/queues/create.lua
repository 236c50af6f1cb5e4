#!lua
-- create.lua makes tickets that can be matched, each unless there is one with its ID, in whatever status. It also
-- removes published entries from the outbox.
--
-- KEYS[1]  waiting   zset    IDs of tickets that wait, by when they were made, in microseconds
-- KEYS[2]  expiries  zset    the same IDs, by when their lives end, in milliseconds
-- KEYS[3]  proposed  zset    IDs of tickets that are held, by until when, in milliseconds
-- KEYS[4]  changes   stream  tickets that came or were cancelled
-- KEYS[5]  outbox    stream  assignments on their way to their channels
-- KEYS[6]  director  string  the lease of the queue's director
-- KEYS[7]  listening set     IDs of tickets that wait and whose channels are wanted
-- KEYS[8…] both      string  of each attempt the ticket and its assignment
--
-- ARGV[1]  nudges  string  sharded pub/sub channel of the queue
-- ARGV[2]  feed    string  sharded pub/sub channel of its director
-- ARGV[3]  delivered  string  entries of the outbox that were published, separated by spaces
-- ARGV[4…] texts   string  of each attempt the ticket's ID; in milliseconds how long it can be matched, how long it can
--                          be read after that, and how long it can be matched at most, however often it is renewed; how
--                          many tickets may wait, this one included, or 0; the attempt's ULID, a space, and the epoch
--                          of the life of its channel that the ticket begins, or nothing: its ID is never used again;
--                          "1" if its channel is wanted although it has no epoch, or ""; what the player asks for
--
-- Returns {"OK", outgoing, {outcome, …}}: the length of the outbox, and in the order of the attempts {"CREATED",
-- created_us, expires_ms}, {"EXISTS", status, expires_ms or "", ticket, assignment or ""}, {"FULL"}, or {"UNDONE"} if
-- the attempt or its life was undone before it came here. A ticket that waits is this attempt's from now on, and no
-- earlier one can undo it. No other ticket is changed by any but the first. Several attempts with one ID are decided in
-- their order.
-- Safe to run twice: yes, the second run finds the tickets of its own attempts, which are CREATED again.
local waiting_key, expiries_key, proposed_key, changes_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local outbox_key, director_key, listening_key, both = KEYS[5], KEYS[6], KEYS[7], batch.from(KEYS, 8)
local nudges, feed, delivered, texts = ARGV[1], ARGV[2], ARGV[3], batch.from(ARGV, 4)

-- A ticket of more bytes is not repeated in the changes: their reader reads its key.
local LARGE = 16384
local now, now_ms = time.now()
local outgoing = redis.call('XLEN', outbox_key)
local keys = {waiting = waiting_key, expiries = expiries_key, proposed = proposed_key, listening = listening_key}
acl.require(changes_key, 'SADD', 'XADD', 'ZREM', 'PEXPIREAT', 'ZADD')
outbox.remove(outbox_key, delivered)
local news, outcomes, left, made, longest = nil, {}, creation.parse(texts, both), 0, 0
while #left > 0 do
  local firsts, values, waiting, new = nil, nil, nil, {}
  firsts, values, left = creation.divide(left, director_key)
  news = news or changes.begin(now_ms, changes_key, values[#values], {nudges, feed})
  for i, attempt in ipairs(firsts) do
    local outcome = creation.settle(now_ms, attempt, expiries_key, proposed_key, values[i])
    if not outcome and attempt.max > 0 then
      waiting = waiting or redis.call('ZCOUNT', expiries_key, '(' .. time.decimal(now_ms), '+inf')
      outcome = waiting + #new >= attempt.max and {'FULL'} or nil
    end
    outcomes[attempt.at], new[#new + 1] = outcome, not outcome and attempt or nil
  end

  local lists = {created = {}, expires = {}, reused = {}, listening = {}}
  for i, attempt in ipairs(new) do
    local us, id = now + made, attempt.id
    local ends = time.decimal(math.floor(us / 1000) + attempt.ttl)
    local value = 'S' .. time.decimal(us) .. attempt.rest
    redis.call('SET', attempt.ticket, value, 'PXAT', time.decimal(ends + attempt.keep))
    local small = #value <= LARGE and value
    changes.append(news, id, {'expires', ends, 'ticket', small or ''}, small and ends .. ' ' .. #value .. ' ' .. value)
    lists.created[2 * i - 1], lists.created[2 * i] = time.decimal(us), id
    lists.expires[2 * i - 1], lists.expires[2 * i] = ends, id
    lists.reused[#lists.reused + 1] = attempt.reused and id or nil
    lists.listening[#lists.listening + 1] = attempt.listens and id or nil
    outcomes[attempt.at] = {'CREATED', time.decimal(us), ends}
    made, longest = made + 1, math.max(longest, attempt.ttl)
  end
  creation.enter(now_ms, keys, lists, longest)
end
if made > 0 then
  time.prolong(now_ms, longest + time.DAY_MS, waiting_key, expiries_key, changes_key)
  changes.notify(news)
end
return {'OK', outgoing, outcomes}
