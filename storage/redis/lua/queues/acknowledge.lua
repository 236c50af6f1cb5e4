#!lua
-- acknowledge.lua extends the life of a backfill, and assigns its associated tickets. The caller names the tickets that
-- it expects. If others have to be assigned, it returns these and changes nothing: the caller repeats the call with
-- their keys.
--
-- KEYS[1]    waiting      zset    IDs of waiting tickets, by creation, in microseconds
-- KEYS[2]    expiries     zset    the same IDs, by the ends of their lives, in milliseconds
-- KEYS[3]    proposed     zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[4]    claims       hash    tokens of the claims, by ID
-- KEYS[5]    outbox       stream  assignments to be published to their channels
-- KEYS[6]    matched      stream  how long the tickets of each match had waited
-- KEYS[7]    stats        hash    counts
-- KEYS[8]    listening    set     IDs of waiting tickets whose assignments have to be published
-- KEYS[9]    backfills    zset    IDs of backfills, by the ends of their lives, in milliseconds
-- KEYS[10]   backfill     hash    the backfill
-- KEYS[11]   match        string  of the tickets that are assigned
-- KEYS[12…]  ticket_keys  string  of each expected ticket the ticket and its assignment
--
-- ARGV[1]  id        string  the backfill's
-- ARGV[2]  ttl_ms    int     its life from now on
-- ARGV[3]  match_id  string  of the match
-- ARGV[4]  record    string  of the match, JSON
-- ARGV[5]  keep_ms   int     how long the tickets, their assignments, and the match can be read
-- ARGV[6]  assigned  string  sharded pub/sub channel for players that wait for assignments
-- ARGV[7]  notify    int     1: publish a notification to it; 0: the caller does
-- ARGV[8]  max_bytes int     size of a notification beyond which it leaves the assignments out
-- ARGV[9…] texts     string  of each expected ticket its ID and its assignment, JSON
--
-- Returns {"OK", {expires_ms, generation, created_us, content, persistent, tickets}, {ticket, …}, {entry or "",
-- …}, {waited_us, …}}: the values of the tickets that are assigned now, their entries of the outbox and their waiting
-- times; the last two are empty if an earlier run assigned them. {"TICKETS", {id, …}} if others have to be assigned;
-- {"NO_BACKFILL"} or {"EXPIRED"}. Only OK changes anything.
-- Safe to run twice: yes, the second run finds the match and its tickets.
local waiting_key, expiries_key, proposed_key, claims_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local outbox_key, matched_key, stats_key, listening_key = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local backfills_key, backfill_key, match_key, ticket_keys = KEYS[9], KEYS[10], KEYS[11], batch.from(KEYS, 12)
local id, ttl_ms, match_id, record = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local keep_ms, assigned, notify, max_bytes = tonumber(ARGV[5]), ARGV[6], ARGV[7], tonumber(ARGV[8])
local texts = batch.from(ARGV, 9)
local now, now_ms = time.now()

local fields, expires = backfill.state(now_ms, backfills_key, backfill_key, id)
if not fields then
  return expires and {'EXPIRED'} or {'NO_BACKFILL'}
end

-- to_assign returns those of the associated tickets that wait, and that nobody else has claimed since.
local function to_assign()
  local claimed, ids = claims.held(claims_key, backfill.list(fields.tickets), claims.backfill(id)), {}
  for i, ending in ipairs(batch.replies('ZMSCORE', expiries_key, claimed)) do
    if ending and tonumber(ending) > now_ms then
      ids[#ids + 1] = claimed[i]
    end
  end
  return ids
end

-- values returns the values of the expected tickets, "" for one that does not exist any more.
local function values()
  local found = {}
  for i = 1, #ticket_keys, 2 do
    found[#found + 1] = redis.call('GET', ticket_keys[i]) or ''
  end
  return found
end

local repeated = fields.match == match_id
local ids = repeated and backfill.list(fields.matched) or fields.tickets ~= '' and to_assign() or {}
for i = 1, math.max(#ids, #texts / 2) do
  if ids[i] ~= texts[2 * i - 1] then
    return {'TICKETS', ids}
  end
end
local ends, changed = time.decimal(now_ms + ttl_ms), not repeated and fields.tickets ~= ''
local keep = backfill.keep(now_ms + ttl_ms)
local prolongs = keep ~= backfill.keep(tonumber(expires))
if changed or prolongs then
  acl.require(outbox_key, 'ZREM', 'SREM', 'HDEL', 'HSET', 'SET', 'PEXPIREAT', 'ZADD', 'XADD', 'HINCRBY')
  acl.require_publish(assigned)
end
redis.call('ZADD', backfills_key, 'XX', ends, id)
if prolongs then
  redis.call('PEXPIREAT', backfill_key, time.decimal(keep))
  time.prolong(now_ms, ttl_ms + time.DAY_MS, backfills_key)
end
if changed and #ids == 0 then
  fields.tickets = ''
  redis.call('HSET', backfill_key, 'tickets', '')
end
if repeated or #ids == 0 then
  return {'OK', backfill.reply(fields, ends), repeated and values() or {}, {}, {}}
end

local created = batch.replies('ZMSCORE', waiting_key, ids)
local listens = batch.replies('SMISMEMBER', listening_key, ids)
local ending, entries, waits, contents, publishes = time.decimal(now_ms + keep_ms), {}, {}, {}, false
local found = values()
for i, ticket_id in ipairs(ids) do
  local epoch = string.match(found[i] or '', '^S%d+ %d+ %d+ %d+ %S+ (%S*) ') or ''
  local outbox = (listens[i] == 1 or epoch ~= '') and outbox_key
  local keys = {ticket = ticket_keys[2 * i - 1], assignment = ticket_keys[2 * i]}
  contents[i], publishes = texts[2 * i], publishes or outbox
  entries[i] = assignment.put(keys, ending, ticket_id, contents[i], outbox, match_id, epoch)
  waits[i] = time.decimal(math.max(now - (created[i] or now), 0))
  created[i] = created[i] or time.decimal(now)
end
local mark = match_id .. ' ' .. redis.sha1hex(table.concat(ids, ' ')) .. ' '
assignment.record(match_key, matched_key, now, keep_ms, {id = match_id, mark = mark, record = record}, waits)
fields.tickets = ''
redis.call('HSET', backfill_key, 'tickets', '', 'match', match_id, 'matched', backfill.text(ids))
local keys = {
  waiting = waiting_key, expiries = expiries_key, listening = listening_key, proposed = proposed_key,
  claims = claims_key, stats = stats_key, matched = matched_key,
}
local notification = notice.assigned(ids, created, contents, max_bytes)
assignment.finish(now_ms, keys, ids, notify == '1' and assigned, notification, publishes or matched_key)
return {'OK', backfill.reply(fields, ends), found, entries, waits}
