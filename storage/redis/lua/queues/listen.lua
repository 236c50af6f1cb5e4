#!lua
-- listen.lua has the assignment of a ticket put into the outbox when it is made, and returns one that was made before.
--
-- KEYS[1] ticket      string  the ticket
-- KEYS[2] assignment  string  its assignment
-- KEYS[3] expiries    zset    IDs of waiting tickets, by the ends of their lives, in milliseconds
-- KEYS[4] listening   set     IDs of waiting tickets whose assignments have to be published
--
-- ARGV[1] id  string  the ticket's
--
-- Returns {"OK", ""} if the ticket waits, {"OK", assignment}, or {"NO_TICKET"} if it is over.
-- Safe to run twice: yes.
local ticket_key, assignment_key, expiries_key, listening_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id = ARGV[1]

local _, now_ms = time.now()
local expires = redis.call('ZSCORE', expiries_key, id)
if not expires then
  local found = redis.call('GETRANGE', ticket_key, 0, 0) == 'S' and redis.call('GET', assignment_key)
  return found and {'OK', found} or {'NO_TICKET'}
elseif tonumber(expires) <= now_ms then
  return {'NO_TICKET'}
end
acl.require(listening_key, 'PEXPIREAT')
redis.call('SADD', listening_key, id)
time.prolong(now_ms, expires - now_ms + time.DAY_MS, listening_key)
return {'OK', ''}
