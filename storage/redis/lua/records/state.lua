#!lua flags=no-writes
-- state.lua reads a process's state.
--
-- KEYS[1] state  hash  the fields
--
-- Returns {"OK", ends_ms, {field, value, …}}, or {"NONE"}.
-- Safe to run twice: yes, it only reads.
local state_key = KEYS[1]

local all = redis.call('HGETALL', state_key)
if #all == 0 then
  return {'NONE'}
end
return {'OK', redis.call('PEXPIRETIME', state_key), all}
