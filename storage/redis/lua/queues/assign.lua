#!lua
-- assign.lua assigns matches: of each all its tickets, or none of them.
--
-- KEYS[1]  waiting   zset    IDs of tickets that wait, by when they were made, in microseconds
-- KEYS[2]  expiries  zset    the same IDs, by when their lives end, in milliseconds
-- KEYS[3]  proposed  zset    IDs of tickets that are held, by until when, in milliseconds
-- KEYS[4]  claims    hash    the tokens that hold them
-- KEYS[5]  outbox    stream  assignments on their way to their channels
-- KEYS[6]  matched   stream  how long the tickets of each match had waited
-- KEYS[7]  stats     hash    counts
-- KEYS[8]  director  string  the lease of the queue's director
-- KEYS[9]  listening set     IDs of tickets that wait and whose channels are wanted
-- KEYS[10…] all      string  of each match its own key, and of each of its tickets the ticket and its assignment
--
-- ARGV[1]  token     string  must hold all tickets
-- ARGV[2]  fence     string  of the director's lease: with it, tickets that nobody holds are assigned too; or ""
-- ARGV[3]  keep_ms   int     how long the tickets, their assignments, and the matches can be read
-- ARGV[4]  assigned  string  sharded pub/sub channel for those who wait for assignments
-- ARGV[5]  most      int     bytes of a notification at most, beyond which it leaves the assignments out; -1: there is
--                            none
-- ARGV[6…] texts     string  of each match its ID, its record, JSON or "", the number of its tickets, and of each
--                            ticket its ID, when it was made in microseconds or "" for any time, the epoch of its
--                            channel's life or "", and its assignment, JSON
--
-- Returns {"OK", {outcome, …}} if a match was assigned, {"EXISTS", {outcome, …}} if one was assigned before and none
-- now, or {"CONFLICT", {outcome, …}}. An outcome is {"OK", {entry or "", …}, {waited_us, …}} in the order of the
-- tickets, {"EXISTS"} if this was done before, {"CONFLICT", {id, reason, until_ms or "", …}} with the reasons "gone"
-- and "claim", and until when another token holds the ticket, or {"LEASE"} if the lease isn't held. The last three
-- change nothing but the count of conflicts.
-- Safe to run twice: yes, the second run is EXISTS for as long as the tickets can be read, and for a minute.
local waiting_key, expiries_key, proposed_key, claims_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local outbox_key, matched_key, stats_key, director_key, all = KEYS[5], KEYS[6], KEYS[7], KEYS[8], batch.from(KEYS, 10)
local token, fence, keep_ms, assigned, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local listening_key, texts = KEYS[9], batch.from(ARGV, 6)

local now, now_ms = time.now()
local keys = {
  waiting = waiting_key, expiries = expiries_key, listening = listening_key,
  proposed = proposed_key, claims = claims_key,
}
local leads = fence ~= '' and lease.holder(director_key, now_ms) == fence
local matches, ids = matching.parse(texts, all, token)
local created, reason, free = matching.judge(now_ms, keys, ids, token, leads)
local outcomes, counts = matching.decide(matches, ids, texts, fence ~= '' and not leads, reason)
local writes = counts.OK + counts.CONFLICT > 0
if writes then
  acl.require(outbox_key, 'ZREM', 'SREM', 'HDEL', 'SET', 'PEXPIREAT', 'XADD', 'HINCRBY')
  acl.require_publish(assigned)
end
local wants = counts.OK > 0 and matching.wanted(keys, matches, ids, texts)
local ending, left, times, contents = time.decimal(now_ms + keep_ms), {}, {}, {}
for at, match in ipairs(matches) do
  local status, entries, waits = unpack(outcomes[at])
  for i = match.first, status == 'OK' and match.last or 0 do
    local text, key, n = match.texts + 4 * i, match.keys + 2 * i, #left + 1
    local content = texts[text + 3]
    redis.call('PEXPIREAT', all[key], ending)
    redis.call('SET', all[key + 1], content, 'PXAT', ending)
    entries[#entries + 1] = wants[i] and outbox.add(outbox_key, ids[i], match.id, texts[text + 2], content) or ''
    waits[#waits + 1] = time.decimal(math.max(now - created[i], 0))
    left[n], times[n], contents[n] = ids[i], created[i], content
  end
  if status == 'OK' then
    redis.call('SET', match.key, match.mark .. time.decimal(now) .. ' ' .. match.record, 'PX', math.max(keep_ms, 60000))
    redis.call('XADD', matched_key, 'MAXLEN', '~', 1000, '*', 'waits', table.concat(waits, ' '))
  end
end
if counts.CONFLICT > 0 then
  redis.call('HINCRBY', stats_key, 'conflicts', counts.CONFLICT)
end
if counts.OK > 0 then
  queue.remove(keys, left, free)
  redis.call('HINCRBY', stats_key, 'matched', #left)
  if most >= 0 then
    redis.call('SPUBLISH', assigned, notice.assigned(left, times, contents, most))
  end
  time.prolong(now_ms, time.DAY_MS, wants.some and outbox_key or matched_key, matched_key)
end
if writes then
  time.prolong(now_ms, time.DAY_MS, stats_key)
end
return {counts.OK > 0 and 'OK' or counts.EXISTS > 0 and 'EXISTS' or 'CONFLICT', outcomes}
