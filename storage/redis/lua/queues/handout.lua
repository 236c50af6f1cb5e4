#!lua
-- handout.lua hands matches out: of each it claims all tickets, or none of them, and creates or changes its backfill.
--
-- KEYS[1]   waiting        zset  IDs of waiting tickets, by creation, in microseconds
-- KEYS[2]   expiries       zset  the same IDs, by the ends of their lives, in milliseconds
-- KEYS[3]   proposed       zset  IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[4]   claims         hash  tokens of the claims, by ID
-- KEYS[5]   backfills      zset  IDs of backfills, by the ends of their lives, in milliseconds
-- KEYS[6…]  backfill_keys  hash  the backfill of each match that has one
--
-- ARGV[1]  hold_ms        int  from now to the end of the claims
-- ARGV[2]  ttl_ms         int  life of a new backfill without an acknowledgement
-- ARGV[3]  max_backfills  int  backfills at most
-- ARGV[4]  max_tickets    int  tickets associated with a backfill at most
-- ARGV[5…] texts          string  of each match three values, then four if it has a backfill, then two of each ticket:
--                           attempt     string  ULID of the request, a dash and the match's number: the token of the
--                                               claims, after the backfill if the match has one
--                           tickets     int     number of its tickets
--                           backfill    string  "new", "old", or "" if it has none
--                           id          string  of the backfill
--                           generation  int     that an old backfill must have
--                           content     string  protobuf
--                           persistent  string  protobuf; an old backfill keeps its own
--                           ticket      string  ID of the ticket
--                           created_us  int     the ticket has to be the one created then; "": at any time
--
-- Returns {"OK", now_ms, {outcome, …}} if a match was handed out, or {"CONFLICT", now_ms, {outcome, …}}. An outcome is
-- {"OK", held_ms}, or {"OK", held_ms, {expires_ms, generation, created_us, content, persistent, tickets}} with a
-- backfill, with the end of the claims, or of the backfill's life if that is earlier; {"CONFLICT", {id, reason,
-- until_ms or "", …}} with the reasons "gone" and "claim" and the end of the other claim; {"CHANGED"} if the backfill
-- does not exist, has another generation or would have too many tickets; or {"FULL"} if there are too many backfills.
-- The last three change nothing.
-- Safe to run twice: yes, the second run finds its claims and its attempts.
local waiting_key, expiries_key, proposed_key, claims_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local backfills_key, backfill_keys = KEYS[5], batch.from(KEYS, 6)
local hold_ms, ttl_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local max_backfills, max_tickets = tonumber(ARGV[3]), tonumber(ARGV[4])
local texts = batch.from(ARGV, 5)
local now, now_ms = time.now()

-- read_matches returns the matches and the IDs of their tickets. A match has the indices of its first and last ticket;
-- the values of ticket i begin at texts[match.texts + 2 * i].
local function read_matches()
  local matches, ids, text, key = {}, {}, 1, 1
  while text <= #texts do
    local attempt, count, kind = texts[text], tonumber(texts[text + 1]), texts[text + 2]
    local match = {kind = kind, attempt = attempt, token = attempt, first = #ids + 1, last = #ids + count}
    text = text + 3
    if kind ~= '' then
      match.id, match.generation = texts[text], texts[text + 1]
      match.content, match.persistent = texts[text + 2], texts[text + 3]
      match.key, match.token = backfill_keys[key], claims.backfill(match.id) .. '-' .. attempt
      text, key = text + 4, key + 1
    end
    match.texts = text - 2 * match.first
    for i = match.first, match.last do
      ids[i] = texts[match.texts + 2 * i]
    end
    matches[#matches + 1], text = match, text + 2 * count
  end
  return matches, ids
end

local matches, ids = read_matches()
local keys = {waiting = waiting_key, expiries = expiries_key, proposed = proposed_key, claims = claims_key}
local found = claims.read(keys, ids)
local ending, taken, backfills = time.decimal(now_ms + hold_ms), {}, nil

-- reason returns why ticket i can't be claimed for a match, or nil, and the end of the other claim.
local function reason(match, i)
  local ends = claims.ending(found, i, now_ms)
  if claims.gone(found, i, texts[match.texts + 2 * i + 1], now_ms) then
    return 'gone'
  elseif taken[ids[i]] then
    return 'claim', ending
  elseif ends and found.holders[i] ~= match.token then
    return 'claim', ends
  end
end

-- prepare returns the fields of the match's backfill as they become, and the end of its life; or nil and an outcome.
-- repeated is whether an earlier run changed it.
local function prepare(match)
  local fields, expires = backfill.state(now_ms, backfills_key, match.key, match.id)
  if fields and fields.attempt == match.attempt then
    return fields, expires, true
  elseif match.kind == 'old' then
    if not fields or tonumber(fields.generation) ~= tonumber(match.generation) or
      #backfill.list(fields.tickets) + match.last - match.first >= max_tickets then
      return nil, {'CHANGED'}
    end
    fields.generation, fields.content = time.decimal(fields.generation + 1), match.content
    return fields, expires
  end
  backfills = backfills or redis.call('ZCOUNT', backfills_key, '(' .. time.decimal(now_ms), '+inf')
  if backfills >= max_backfills then
    return nil, {'FULL'}
  end
  return {
    generation = '1', created = time.decimal(now), content = match.content, persistent = match.persistent,
    tickets = '',
  }, time.decimal(now_ms + ttl_ms)
end

-- hand_out hands a match out, and returns its outcome.
local function hand_out(match)
  local fields, expires, repeated
  if match.kind ~= '' then
    fields, expires, repeated = prepare(match)
    if not fields then
      return expires
    end
  end
  local conflicts = repeated and {} or claims.conflicts(ids, match.first, match.last, function(i)
    return reason(match, i)
  end)
  if #conflicts > 0 then
    return {'CONFLICT', conflicts}
  end
  local claimed = {}
  for i = match.first, repeated and 0 or match.last do
    taken[ids[i]], claimed[#claimed + 1] = true, ids[i]
  end
  claims.hold(keys, claimed, match.token, ending)
  local held = repeated and match.first <= match.last and found.ends[match.first] or ending
  if not fields then
    return {'OK', held}
  end
  if tonumber(expires) < tonumber(held) then
    held = expires
  end
  if match.kind == 'new' and not repeated then
    backfills = backfills + 1
    redis.call('ZADD', backfills_key, expires, match.id)
  end
  local associated, new = {}, {}
  for _, id in ipairs(backfill.list(fields.tickets)) do
    associated[id] = true
  end
  for _, id in ipairs(claimed) do -- it has those that were released and are handed out again
    new[#new + 1] = not associated[id] and id or nil
  end
  fields.tickets = fields.tickets .. backfill.text(new)
  backfill.change(match.key, fields, expires, match.attempt)
  return {'OK', held, backfill.reply(fields, expires)}
end

acl.require(claims_key, 'HSET', 'PEXPIREAT', 'ZADD')
local outcomes, status = {}, 'CONFLICT'
for at, match in ipairs(matches) do
  outcomes[at] = hand_out(match)
  status = outcomes[at][1] == 'OK' and 'OK' or status
end
if status == 'OK' then
  time.prolong(now_ms, hold_ms + time.DAY_MS, proposed_key, claims_key)
  if backfills then
    time.prolong(now_ms, ttl_ms + time.DAY_MS, backfills_key)
  end
end
return {status, time.decimal(now_ms), outcomes}
