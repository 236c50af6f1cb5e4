#!lua
-- prolong.lua extends the lives of backfills that have no tickets to assign.
--
-- KEYS[1]  backfills  zset  IDs of backfills, by the ends of their lives, in milliseconds
-- KEYS[2…] each       hash  the backfills
--
-- ARGV[1…] texts  string  of each backfill three values:
--                         id        string  the backfill's
--                         ttl_ms    int     its life from now on
--                         match_id  string  of the match of tickets that this acknowledgement may have assigned before
--
-- Returns {"OK", {outcome, …}} in the order of the backfills: {"OK", {expires_ms, generation, created_us, owner,
-- content, persistent, tickets}}, {"TICKETS", {id, …}} if these tickets may have to be assigned, or were under the
-- match, {"NO_BACKFILL"}, or {"EXPIRED"}. Only OK changes anything.
-- Safe to run twice: yes.
local backfills_key, each = KEYS[1], batch.from(KEYS, 2)
local texts = batch.from(ARGV, 1)

local _, now_ms = time.now()
local ids, outcomes, scores, longest, late = {}, {}, {}, 0, {}
for i = 1, #each do
  ids[i] = texts[3 * i - 2]
end
local found = batch.replies('ZMSCORE', backfills_key, ids)
for i, key in ipairs(each) do
  local id, ttl_ms, match_id = ids[i], tonumber(texts[3 * i - 1]), texts[3 * i]
  local fields, expires = backfill.fields(now_ms, key, found[i])
  if not fields then
    outcomes[i] = expires and {'EXPIRED'} or {'NO_BACKFILL'}
  elseif fields.match == match_id then
    outcomes[i] = {'TICKETS', backfill.list(fields.matched)}
  elseif fields.tickets ~= '' then
    outcomes[i] = {'TICKETS', backfill.list(fields.tickets)}
  else
    local ends, keep = time.decimal(now_ms + ttl_ms), backfill.keep(now_ms + ttl_ms)
    scores[#scores + 1], scores[#scores + 2] = ends, id
    if keep ~= backfill.keep(tonumber(expires)) then
      late[key], longest = time.decimal(keep), math.max(longest, ttl_ms)
    end
    outcomes[i] = {'OK', backfill.reply(fields, ends)}
  end
end
if longest > 0 then
  acl.require(backfills_key, 'ZADD', 'PEXPIREAT')
end
if #scores > 0 then
  redis.call('ZADD', backfills_key, 'XX', unpack(scores))
end
if longest > 0 then
  for key, keep in pairs(late) do
    redis.call('PEXPIREAT', key, keep)
  end
  time.prolong(now_ms, longest + time.DAY_MS, backfills_key)
end
return {'OK', outcomes}
