#!lua flags=allow-oom
-- vacate.lua prevents the creation of a ticket in one life of its channel, unless a ticket with its ID exists. It may
-- run when Redis is out of memory.
--
-- KEYS[1] ticket  string  the ticket
--
-- ARGV[1] epoch    ULID  of the life
-- ARGV[2] keep_ms  int   how long no ticket can be created in that life
--
-- Returns {"OK"} if there is no ticket, or {"EXISTS"} if there is one.
-- Safe to run twice: yes.
local ticket_key = KEYS[1]
local epoch, keep_ms = ARGV[1], ARGV[2]

local found = redis.call('GET', ticket_key) or 'U'
if string.sub(found, 1, 1) ~= 'U' then
  return {'EXISTS'}
end
redis.call('SET', ticket_key, found .. ' ' .. epoch, 'PX', keep_ms)
return {'OK'}
