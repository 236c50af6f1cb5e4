#!lua flags=no-writes
-- hosts.lua reads the holders of a data centre, if a shard was claimed or left since the caller's last read.
--
-- KEYS[1] layout  hash  generation, starts, last incarnation, and primary of the data centre
-- KEYS[2] shards  hash  holders of the data centre, by host
--
-- ARGV[1] version  string  of the caller's last read, '' to read in any case
--
-- Returns {"OK", version, now_ms, holders}: their fields, including those whose claims have ended. {"SAME"} if the
-- version is the caller's.
-- Safe to run twice: yes, it only reads.
local layout_key, shards_key = KEYS[1], KEYS[2]
local version = ARGV[1]

local incarnation, left = unpack(redis.call('HMGET', layout_key, 'incarnation', 'left'))
local current = incarnation and incarnation .. ' ' .. (left or '0') or ''
if current == version and version ~= '' then
  return {'SAME'}
end
local _, now_ms = time.now()
return {'OK', current, now_ms, redis.call('HVALS', shards_key)}
