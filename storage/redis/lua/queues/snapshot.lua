#!lua flags=no-writes
-- snapshot.lua reads a page of the tickets that wait, the oldest first, and the last change.
--
-- KEYS[1] waiting   zset    IDs of waiting tickets, by creation, in microseconds
-- KEYS[2] expiries  zset    the same IDs, by the ends of their lives, in milliseconds
-- KEYS[3] proposed  zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[4] changes   stream  tickets that were created or cancelled
--
-- ARGV[1] from_us  int  the page's tickets were made then or later
-- ARGV[2] limit    int  tickets at most
--
-- Returns {"OK", now_us, point, {id, created_us, expires_ms or "", held_until_ms or "", …}}.
-- Safe to run twice: yes, it only reads.
local waiting_key, expiries_key, proposed_key, changes_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local from_us, limit = ARGV[1], ARGV[2]

local last, point = redis.call('XREVRANGE', changes_key, '+', '-', 'COUNT', 1)[1], '0-0'
if last then
  point = last[1] .. '/' .. last[2][2]
elseif redis.call('EXISTS', changes_key) == 1 then
  local about = redis.call('XINFO', 'STREAM', changes_key)
  for i = 1, #about, 2 do
    point = about[i] == 'last-generated-id' and about[i + 1] or point
  end
end

local page, ids = redis.call('ZRANGE', waiting_key, from_us, '+inf', 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES'), {}
for i = 1, #page, 2 do
  ids[#ids + 1] = page[i]
end
local now, found = time.now(), {}
if #ids > 0 then
  local expires = redis.call('ZMSCORE', expiries_key, unpack(ids))
  local ends = redis.call('ZMSCORE', proposed_key, unpack(ids))
  for i, id in ipairs(ids) do
    local at = 4 * i
    found[at - 3], found[at - 2], found[at - 1], found[at] = id, page[2 * i], expires[i] or '', ends[i] or ''
  end
end
return {'OK', time.decimal(now), point, found}
