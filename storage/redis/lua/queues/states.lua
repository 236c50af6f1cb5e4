#!lua flags=no-writes
-- states.lua reads what became of tickets.
--
-- KEYS[1]   waiting      zset    IDs of waiting tickets, by creation, in microseconds
-- KEYS[2]   expiries     zset    the same IDs, by the ends of their lives, in milliseconds
-- KEYS[3…]  ticket_keys  string  of each ticket the ticket and its assignment
--
-- ARGV[1…] ids  string  the tickets'
--
-- Returns {"OK", {created_us, remaining_ms, assignment, …}} in the order of the tickets: created_us is 0 if a ticket
-- neither waits nor is assigned, remaining_ms is until the end of its life and 0 if it doesn't wait, and assignment is
-- "" if it has none.
-- Safe to run twice: yes, it only reads.
local waiting_key, expiries_key, ticket_keys = KEYS[1], KEYS[2], batch.from(KEYS, 3)
local ids = batch.from(ARGV, 1)

local _, now_ms = time.now()
local created = batch.replies('ZMSCORE', waiting_key, ids)
local expires = batch.replies('ZMSCORE', expiries_key, ids)
local states = {}
for i = 1, #ids do
  local created_us, remaining_ms, assignment = '0', '0', ''
  if created[i] and expires[i] then
    if tonumber(expires[i]) > now_ms then
      created_us, remaining_ms = time.decimal(created[i]), time.decimal(expires[i] - now_ms)
    end
  else
    local content = redis.call('GET', ticket_keys[2 * i])
    local at = content and string.match(redis.call('GETRANGE', ticket_keys[2 * i - 1], 0, 20), '^S(%d+) ')
    if at then
      created_us, assignment = at, content
    end
  end
  states[3 * i - 2], states[3 * i - 1], states[3 * i] = created_us, remaining_ms, assignment
end
return {'OK', states}
