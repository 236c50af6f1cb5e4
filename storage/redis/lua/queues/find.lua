#!lua
-- find.lua finds a ticket for an attempt to create it, or prevents its creation in one life of its channel.
--
-- KEYS[1] ticket      string  the ticket
-- KEYS[2] assignment  string  its assignment
-- KEYS[3] expiries    zset    IDs of waiting tickets, by the ends of their lives, in milliseconds
-- KEYS[4] proposed    zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
--
-- ARGV[1] id       string  the ticket's
-- ARGV[2] attempt  ULID    names the attempt
-- ARGV[3] life     ULID    epoch of the life of the ticket's channel
-- ARGV[4] keep_ms  int     how long no ticket can be created in that life
--
-- Returns {"EXISTS", status, expires_ms or "", ticket, assignment or ""}, or {"VACANT"}. A ticket that waits is this
-- attempt's from now on, and no earlier one can undo it.
-- Safe to run twice: yes.
local ticket_key, assignment_key, expiries_key, proposed_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, attempt, life, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local _, now_ms = time.now()
local keys = {ticket = ticket_key, assignment = assignment_key, expiries = expiries_key, proposed = proposed_key}
local status, ends, found, assigned = ticket.state(now_ms, id, keys)
if status then
  ticket.adopt(ticket_key, found, status, attempt)
  return {'EXISTS', status, ends, found, assigned}
end
if not (found and string.find(found, life, 1, true)) then
  redis.call('SET', ticket_key, (found or 'U') .. ' ' .. life, 'PX', keep_ms)
end
return {'VACANT'}
