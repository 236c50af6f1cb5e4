#!lua flags=no-writes
-- contents.lua reads tickets, in order, until their values have a number of bytes.
--
-- KEYS[1…] tickets  string  tickets, at most 250
--
-- ARGV[1]  max_bytes  int  bytes after which it ends
--
-- Returns {"OK", {value or "", …}} with at least the first one.
-- Safe to run twice: yes, it only reads.
local tickets, max_bytes = batch.from(KEYS, 1), tonumber(ARGV[1])

local STEP = 16 -- values that are read at once: each may be large
local found, bytes = {}, 0
for first = 1, #tickets, STEP do
  for _, value in ipairs(redis.call('MGET', unpack(tickets, first, math.min(first + STEP - 1, #tickets)))) do
    found[#found + 1] = value or ''
    bytes = bytes + #found[#found]
  end
  if bytes >= max_bytes then
    break
  end
end
return {'OK', found}
