#!lua
-- create.lua makes a ticket that can be matched, unless there is one with its ID, in whatever status.
-- uses: rights.demand rights.demand_topic ticket.adopt ticket.state time.DAY_MS time.decimal time.prolong time.time
--
-- KEYS[1] ticket      string  the ticket
-- KEYS[2] assignment  string  its assignment
-- KEYS[3] waiting     zset    IDs of tickets that wait, by when they were made, in microseconds
-- KEYS[4] expiries    zset    the same IDs, by when their lives end, in milliseconds
-- KEYS[5] proposed    zset    IDs of tickets that are held, by until when, in milliseconds
-- KEYS[6] changes     stream  tickets that came or were cancelled
-- More than 4 keys: what the queue has of a ticket is read and changed in one step.
--
-- ARGV[1] id           string  the ticket's
-- ARGV[2] ttl_ms       int     how long it can be matched
-- ARGV[3] keep_ms      int     how long it can be read after that
-- ARGV[4] life_ms      int     how long it can be matched at most, however often it is renewed
-- ARGV[5] max_tickets  int     tickets that may wait, this one included; 0: no limit
-- ARGV[6] names        string  ULID of this attempt to make it, a space, and the epoch of the life of its channel that the
--                              ticket begins, or nothing: its ID is never used again
-- ARGV[7] spec         string  what the player asks for, JSON
-- ARGV[8] nudges       string  sharded pub/sub channel of the queue
--
-- Returns {"CREATED", created_us, expires_ms}, {"EXISTS", status, expires_ms or "", ticket, assignment or ""}, {"FULL"},
-- or {"UNDONE"} if the attempt or its life was undone before it came here. A ticket that waits is this attempt's from
-- now on, and no earlier one can undo it. Nothing else is changed by any but the first.
-- Safe to run twice: yes, the second run finds the ticket of its own attempt, which is CREATED again.
local ticket_key, assignment_key, waiting_key, expiries_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local proposed_key, changes_key = KEYS[5], KEYS[6]
local id, ttl_ms, keep_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local life_ms, max_tickets, names, spec, nudges = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7], ARGV[8]

local attempt = string.match(names, '^%w+')
local now, now_ms = time()
local keys = {ticket = ticket_key, assignment = assignment_key, expiries = expiries_key, proposed = proposed_key}
local status, ends, found, assigned = state(now_ms, id, keys)
if status then
  local made = adopt(ticket_key, found, status, attempt)
  if made then
    return {'CREATED', made, ends}
  end
  return {'EXISTS', status, ends, found, assigned}
end
for name in string.gmatch(found and names or '', '%w+') do
  if string.find(found, name, 1, true) then
    return {'UNDONE'}
  end
end
if max_tickets > 0 and redis.call('ZCOUNT', expiries_key, '(' .. decimal(now_ms), '+inf') >= max_tickets then
  return {'FULL'}
end
demand(changes_key, 'XADD', 'ZREM', 'PEXPIREAT', 'ZADD')
demand_topic(nudges)

-- What makes the ticket matchable comes last. An earlier ticket with this ID may have left a claim.
local created, expires = decimal(now), decimal(now_ms + ttl_ms)
local value = 'S' .. created .. ' ' .. ttl_ms .. ' ' .. keep_ms .. ' ' .. life_ms .. ' ' .. names .. ' ' .. spec
redis.call('SET', ticket_key, value, 'PXAT', decimal(now_ms + ttl_ms + keep_ms))
redis.call('XADD', changes_key, 'MAXLEN', '~', 100000, '*', 'id', id, 'expires', expires, 'ticket', value)
redis.call('ZREM', proposed_key, id)
redis.call('ZADD', waiting_key, created, id)
redis.call('ZADD', expiries_key, expires, id)
prolong(now_ms, ttl_ms + DAY_MS, waiting_key, expiries_key, changes_key)
redis.call('SPUBLISH', nudges, '')
return {'CREATED', created, expires}
