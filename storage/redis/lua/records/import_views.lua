#!lua
-- import_views.lua adds a part of the views that another system has counted.
--
-- KEYS[1] migrated  hash  views by ID, and the two fields of Discours.io: _timestamp and _total
--
-- ARGV[1]  at     int     when they were counted, in seconds
-- ARGV[2]  total  int     IDs of all parts
-- ARGV[3…] views  string  of each ID, the ID and its views
--
-- Returns {"OK", ids}, the number of IDs now, or {"CONFLICT"} if the total differs from that of earlier parts, or is
-- lower than the IDs of all parts, and nothing was changed.
-- Safe to run twice: yes.
local migrated_key = KEYS[1]
local at, total, views = ARGV[1], ARGV[2], batch.from(ARGV, 3)

local ids = {}
for i = 1, #views, 2 do
  ids[#ids + 1] = views[i]
end
local known = redis.call('HGET', migrated_key, '_total')
local count = math.max(redis.call('HLEN', migrated_key) - 2, 0)
for _, found in ipairs(batch.replies('HMGET', migrated_key, ids)) do
  count = count + (found and 0 or 1)
end
if known and known ~= total or count > tonumber(total) then
  return {'CONFLICT'}
end
batch.each(views, function(...)
  redis.call('HSET', migrated_key, ...)
end)
redis.call('HSET', migrated_key, '_timestamp', at, '_total', total)
return {'OK', count}
