#!lua
-- assign.lua assigns matches: of each all its tickets, or none of them.
--
-- KEYS[1]   waiting    zset    IDs of waiting tickets, by creation, in microseconds
-- KEYS[2]   expiries   zset    the same IDs, by the ends of their lives, in milliseconds
-- KEYS[3]   proposed   zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[4]   claims     hash    tokens of the claims, by ID
-- KEYS[5]   outbox     stream  assignments to be published to their channels
-- KEYS[6]   matched    stream  how long the tickets of each match had waited, and its ID
-- KEYS[7]   stats      hash    counts
-- KEYS[8]   director   string  the lease of the queue's director
-- KEYS[9]   listening  set     IDs of waiting tickets whose assignments have to be published
-- KEYS[10…] match_keys string  of each match its own key, and of each of its tickets the ticket and its assignment
--
-- ARGV[1]  token     string  of the claims on the tickets
-- ARGV[2]  fence     string  of the director's lease: with it, tickets without a claim are assigned too; or ""
-- ARGV[3]  keep_ms   int     how long the tickets, their assignments, and the matches can be read
-- ARGV[4]  assigned  string  sharded pub/sub channel for players that wait for assignments
-- ARGV[5]  notify    int     1: publish a notification to it; 0: the caller does
-- ARGV[6]  max_bytes int     size of a notification beyond which it leaves the assignments out
-- ARGV[7]  any       int     1: tickets that were handed out, or that nobody has claimed, are assigned too; else 0
-- ARGV[8…] texts     string  of each match three values, and then four of each of its tickets:
--                            id          string  of the match
--                            record      string  JSON, or ""
--                            tickets     int     number of its tickets
--                            ticket      string  ID of the ticket
--                            created_us  int     the ticket has to be the one created then; "": at any time
--                            epoch       ULID    of the life of its channel, or ""
--                            assignment  string  JSON
--
-- Returns {"OK", {outcome, …}} if a match was assigned, {"EXISTS", {outcome, …}} if one was assigned before and none
-- now, or {"CONFLICT", {outcome, …}}. An outcome is {"OK", {entry or "", …}, {waited_us, …}} in the order of the
-- tickets, {"EXISTS"} if the match was assigned before, {"CONFLICT", {id, reason, until_ms or "", …}} with the reasons
-- "gone" and "claim" and the end of another token's claim, or {"LEASE"} if the lease is not held. The last three change
-- only the count of conflicts.
-- Safe to run twice: yes, the second run is EXISTS for as long as the tickets can be read, and for a minute.
local waiting_key, expiries_key, proposed_key, claims_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local outbox_key, matched_key, stats_key, director_key = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local listening_key, match_keys = KEYS[9], batch.from(KEYS, 10)
local token, fence, keep_ms, assigned = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local notify, max_bytes, any, texts = ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1', batch.from(ARGV, 8)
local now, now_ms = time.now()

-- read_matches returns the matches and the IDs of their tickets. A match has the indices of its first and last ticket.
-- The four values of ticket i begin at texts[match.texts + 4 * i], its two keys at match_keys[match.keys + 2 * i]. The
-- match's own key starts with its mark after it was assigned.
local function read_matches()
  local matches, ids, text, key = {}, {}, 1, 1
  while text <= #texts do
    local first, count = #ids + 1, tonumber(texts[text + 2])
    local match = {
      id = texts[text], record = texts[text + 1], key = match_keys[key], first = first, last = #ids + count,
      texts = text + 3 - 4 * first, keys = key + 1 - 2 * first,
    }
    for i = first, match.last do
      ids[i] = texts[match.texts + 4 * i]
    end
    match.mark = token .. ' ' .. redis.sha1hex(table.concat(ids, ' ', first)) .. ' '
    matches[#matches + 1] = match
    text, key = text + 3 + 4 * count, key + 1 + 2 * count
  end
  return matches, ids
end

-- values_of returns the values of the matches' own keys, by key; "" for a key that does not exist.
local function values_of(matches)
  local keys, found, values = {}, {}, {}
  for i, match in ipairs(matches) do
    keys[i] = match.key
  end
  batch.each(keys, function(...)
    for _, value in ipairs(redis.call('MGET', ...)) do
      found[#found + 1] = value or ''
    end
  end)
  for i, key in ipairs(keys) do
    values[key] = found[i]
  end
  return values
end

-- reason returns why ticket i cannot be assigned, or nil, and the end of another token's claim in milliseconds. If it
-- is free, a ticket without a claim can be assigned.
local function reason(found, i, created_us, free)
  if claims.gone(found, i, created_us, now_ms) then
    return 'gone'
  end
  local ends, holder = claims.ending(found, i, now_ms), found.holders[i]
  local mine = ends and (holder == token or any and claims.handed_out(holder))
  if ends and not mine or not ends and not free then
    return 'claim', ends
  end
end

-- reserve marks the tickets of a match as taken, if none is taken and all can be assigned. Otherwise it returns those
-- that can't be, each with the reason and the end of another token's claim or "".
local function reserve(match, ids, taken, found, free)
  local conflicts = claims.conflicts(ids, match.first, match.last, function(i)
    if taken[ids[i]] then
      return 'gone'
    end
    local why, ends = reason(found, i, texts[match.texts + 4 * i + 1], free)
    taken[ids[i]] = not why and match or nil
    return why, ends
  end)
  for i = match.first, #conflicts > 0 and match.last or 0 do
    if taken[ids[i]] == match then
      taken[ids[i]] = nil
    end
  end
  return #conflicts > 0 and conflicts or nil
end

-- decide returns an outcome for each match, without what assigning it returns, and the number of each status. If
-- barred, no match can be assigned now. If they are free, tickets without a claim can be assigned.
local function decide(matches, ids, barred, found, free)
  local values, taken, outcomes = values_of(matches), {}, {}
  local counts = {['OK'] = 0, ['EXISTS'] = 0, ['CONFLICT'] = 0, ['LEASE'] = 0}
  for at, match in ipairs(matches) do
    if string.sub(values[match.key], 1, #match.mark) == match.mark then
      outcomes[at] = {'EXISTS'}
    elseif barred then
      outcomes[at] = {'LEASE'}
    else
      local conflicts = reserve(match, ids, taken, found, free)
      outcomes[at] = conflicts and {'CONFLICT', conflicts} or {'OK', {}, {}}
      values[match.key] = conflicts and values[match.key] or match.mark
    end
    counts[outcomes[at][1]] = counts[outcomes[at][1]] + 1
  end
  return outcomes, counts
end

-- published returns whether each ticket's assignment has to be published: it has the epoch of a channel's life, or is
-- in listening. some is whether one has. It also returns whether any is in listening.
local function published(matches, ids)
  local listens, found, any = batch.replies('SMISMEMBER', listening_key, ids), {}, false
  for _, match in ipairs(matches) do
    for i = match.first, match.last do
      any = any or listens[i] == 1
      found[i] = listens[i] == 1 or texts[match.texts + 4 * i + 2] ~= ''
      found.some = found.some or found[i]
    end
  end
  return found, any
end

local leads = fence ~= '' and lease.holder(director_key, now_ms) == fence
local matches, ids = read_matches()
local queued = {waiting = waiting_key, expiries = expiries_key, proposed = proposed_key, claims = claims_key}
local found = claims.read(queued, ids)
local outcomes, counts = decide(matches, ids, fence ~= '' and not leads, found, leads or any)
local writes = counts.OK + counts.CONFLICT > 0
if writes then
  acl.require(outbox_key, 'ZREM', 'SREM', 'HDEL', 'SET', 'PEXPIREAT', 'XADD', 'HINCRBY')
  acl.require_publish(assigned)
end
local publishes, listening = nil, false
if counts.OK > 0 then
  publishes, listening = published(matches, ids)
end
local ending, assigned_ids, times, contents = time.decimal(now_ms + keep_ms), {}, {}, {}
for at, match in ipairs(matches) do
  local status, entries, waits = unpack(outcomes[at])
  for i = match.first, status == 'OK' and match.last or 0 do
    local text, key, n, id = match.texts + 4 * i, match.keys + 2 * i, #assigned_ids + 1, ids[i]
    local keys = {ticket = match_keys[key], assignment = match_keys[key + 1]}
    local epoch, content = texts[text + 2], texts[text + 3]
    local outbox = publishes[i] and outbox_key
    entries[#entries + 1] = assignment.put(keys, ending, id, content, outbox, match.id, epoch)
    waits[#waits + 1] = time.decimal(math.max(now - found.created[i], 0))
    assigned_ids[n], times[n], contents[n] = id, found.created[i], content
  end
  if status == 'OK' then
    assignment.record(match.key, matched_key, now, keep_ms, match, waits)
  end
end
if counts.CONFLICT > 0 then
  redis.call('HINCRBY', stats_key, 'conflicts', counts.CONFLICT)
  time.prolong(now_ms, time.DAY_MS, stats_key)
end
if counts.OK > 0 then
  local keys = {
    waiting = waiting_key, expiries = expiries_key, listening = listening and listening_key, matched = matched_key,
    proposed = not found.unclaimed and proposed_key, claims = not found.unclaimed and claims_key, stats = stats_key,
  }
  local topic, notification = notify == '1' and assigned, notice.assigned(assigned_ids, times, contents, max_bytes)
  assignment.finish(now_ms, keys, assigned_ids, topic, notification, publishes.some and outbox_key or matched_key)
end
return {counts.OK > 0 and 'OK' or counts.EXISTS > 0 and 'EXISTS' or 'CONFLICT', outcomes}
