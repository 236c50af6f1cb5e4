#!lua flags=no-writes
-- backfill.lua reads backfills.
--
-- KEYS[1]  backfills  zset  IDs of backfills, by the ends of their lives, in milliseconds
-- KEYS[2…] each       hash  the backfills
--
-- ARGV[1…] ids  string  theirs, in the same order
--
-- Returns {"OK", {backfill, …}} in the order of the IDs: {expires_ms, generation, created_us, owner, content,
-- persistent, tickets}, or {} for one that does not exist or whose life has ended.
-- Safe to run twice: yes, it only reads.
local backfills_key, each = KEYS[1], batch.from(KEYS, 2)
local ids = batch.from(ARGV, 1)

local _, now_ms = time.now()
local found = {}
for i, ends in ipairs(batch.replies('ZMSCORE', backfills_key, ids)) do
  local fields, expires = backfill.fields(now_ms, each[i], ends)
  found[i] = fields and backfill.reply(fields, expires) or {}
end
return {'OK', found}
