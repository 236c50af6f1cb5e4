#!lua flags=no-writes
-- backfill.lua reads backfills.
--
-- KEYS[1]   backfills      zset  IDs of backfills, by the ends of their lives, in milliseconds
-- KEYS[2…]  backfill_keys  hash  the backfills
--
-- ARGV[1]  bytes  int     of the contents, at most, unless one has more
-- ARGV[2…] ids    string  of the backfills, in the order of their keys
--
-- Returns {"OK", {backfill, …}} in the order of the IDs: {expires_ms, generation, created_us, content,
-- persistent, tickets}, or {} for one that does not exist or whose life has ended. The last ones are left out if the
-- contents have too many bytes.
-- Safe to run twice: yes, it only reads.
local backfills_key, backfill_keys = KEYS[1], batch.from(KEYS, 2)
local bytes, ids = tonumber(ARGV[1]), batch.from(ARGV, 2)

local _, now_ms = time.now()
local found, size = {}, 0
for i, ends in ipairs(batch.replies('ZMSCORE', backfills_key, ids)) do
  local fields, expires = backfill.fields(now_ms, backfill_keys[i], ends)
  size = size + (fields and #fields.content + #fields.persistent or 0)
  if i > 1 and size > bytes then
    break
  end
  found[i] = fields and backfill.reply(fields, expires) or {}
end
return {'OK', found}
