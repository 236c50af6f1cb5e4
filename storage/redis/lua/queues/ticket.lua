#!lua flags=no-writes
-- ticket.lua reads a ticket. It runs on replicas too.
--
-- KEYS[1] ticket      string  the ticket
-- KEYS[2] assignment  string  its assignment
-- KEYS[3] expiries    zset    IDs of waiting tickets, by the ends of their lives, in milliseconds
-- KEYS[4] proposed    zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
--
-- ARGV[1] id  string  the ticket's
--
-- Returns {"OK", status, expires_ms or "", ticket, assignment or ""}, or {"NO_TICKET"}.
-- Safe to run twice: yes, it only reads.
local ticket_key, assignment_key, expiries_key, proposed_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id = ARGV[1]

local _, now_ms = time.now()
local keys = {ticket = ticket_key, assignment = assignment_key, expiries = expiries_key, proposed = proposed_key}
local status, ends, found, assigned = ticket.state(now_ms, id, keys)
if not status then
  return {'NO_TICKET'}
end
return {'OK', status, ends, found, assigned}
