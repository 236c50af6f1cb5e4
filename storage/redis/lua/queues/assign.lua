#!lua
-- assign.lua assigns all tickets of a match, or none of them.
-- uses: leave.leave many.from many.gather rights.demand time.DAY_MS time.decimal time.prolong time.time
--
-- KEYS[1]  waiting   zset    IDs of tickets that wait, by when they were made, in microseconds
-- KEYS[2]  expiries  zset    the same IDs, by when their lives end, in milliseconds
-- KEYS[3]  proposed  zset    IDs of tickets that are held, by until when, in milliseconds
-- KEYS[4]  claims    hash    the tokens that hold them
-- KEYS[5]  outbox    stream  assignments on their way to their channels
-- KEYS[6]  matched   stream  how long the tickets of each match had waited
-- KEYS[7]  stats     hash    counts
-- KEYS[8]  match     string  says that the match was assigned: the token, a hash of its tickets, and its record
-- KEYS[9…] both      string  of each ticket the ticket and its assignment
-- More than 4 keys: what the queue has of a ticket is read and changed in one step.
--
-- ARGV[1]  id           string  the match's
-- ARGV[2]  token        string  must hold all tickets
-- ARGV[3]  keep_ms      int     how long the tickets and their assignments can be read
-- ARGV[4]  record       string  the match's, JSON, or ""
-- ARGV[5…] assignments  string  of each ticket its ID, when it was made in microseconds or "" for any time, the epoch of
--                                its channel's life or "", and its assignment, JSON
--
-- Returns {"OK", {entry, …}, {waited_us, …}} in the order of the tickets, {"EXISTS"} if this was done before, or
-- {"CONFLICT", {id, reason, …}} with the reasons "gone" and "claim": then only a count was changed.
-- Safe to run twice: yes, the second run is EXISTS for as long as the tickets can be read, and for a minute.
local waiting_key, expiries_key, proposed_key, claims_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local outbox_key, matched_key, stats_key, match_key = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local both = from(KEYS, 9)
local id, token, keep_ms, record, assignments = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], from(ARGV, 5)

local now, now_ms = time()
local ids = {}
for i = 1, #assignments, 4 do
  ids[#ids + 1] = assignments[i]
end
local mark = token .. ' ' .. redis.sha1hex(table.concat(ids, ' ')) .. ' '
if redis.call('GETRANGE', match_key, 0, #mark - 1) == mark then
  return {'EXISTS'}
end

local created = gather('ZMSCORE', waiting_key, ids)
local expires = gather('ZMSCORE', expiries_key, ids)
local ends = gather('ZMSCORE', proposed_key, ids)
local holders = gather('HMGET', claims_key, ids)
local conflicts = {}
for i, ticket in ipairs(ids) do
  local made = assignments[4 * i - 2]
  local other = created[i] and made ~= '' and tonumber(created[i]) ~= tonumber(made)
  if not created[i] or other or not expires[i] or tonumber(expires[i]) <= now_ms then
    conflicts[#conflicts + 1], conflicts[#conflicts + 2] = ticket, 'gone'
  elseif holders[i] ~= token or not ends[i] or tonumber(ends[i]) <= now_ms then
    conflicts[#conflicts + 1], conflicts[#conflicts + 2] = ticket, 'claim'
  end
end
if #conflicts > 0 then
  redis.call('HINCRBY', stats_key, 'conflicts', 1)
  prolong(now_ms, DAY_MS, stats_key)
  return {'CONFLICT', conflicts}
end
demand(outbox_key, 'ZREM', 'HDEL', 'SET', 'PEXPIREAT', 'XADD', 'HINCRBY')

leave({waiting = waiting_key, expiries = expiries_key, proposed = proposed_key, claims = claims_key}, ids)
local ending, entries, waits = decimal(now_ms + keep_ms), {}, {}
for i, ticket in ipairs(ids) do
  local epoch, content = assignments[4 * i - 1], assignments[4 * i]
  redis.call('PEXPIREAT', both[2 * i - 1], ending)
  redis.call('SET', both[2 * i], content, 'PXAT', ending)
  entries[i] = redis.call('XADD', outbox_key, '*', 'ticket', ticket, 'match', id, 'epoch', epoch, 'content', content)
  waits[i] = decimal(math.max(now - created[i], 0))
end
redis.call('SET', match_key, mark .. record, 'PX', math.max(keep_ms, 60000))
redis.call('HINCRBY', stats_key, 'matched', #ids)
redis.call('XADD', matched_key, 'MAXLEN', '~', 1000, '*', 'waits', table.concat(waits, ' '))
prolong(now_ms, DAY_MS, outbox_key, matched_key, stats_key)
return {'OK', entries, waits}
