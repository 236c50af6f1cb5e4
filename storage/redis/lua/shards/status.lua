#!lua flags=no-writes
-- status.lua reads the layout and the holders of a data centre.
--
-- KEYS[1] layout  hash  generation, starts, last incarnation, and primary of the data centre
-- KEYS[2] shards  hash  holders of the data centre, by host
--
-- Returns {"OK", now_ms, generation, starts, holders}: generation 0 and '' if there is no layout; holders is a list of
-- hosts, each followed by its field, including hosts whose claims have ended.
-- Safe to run twice: yes, it only reads.
local layout_key, shards_key = KEYS[1], KEYS[2]

local _, now_ms = time.now()
local generation, starts = unpack(redis.call('HMGET', layout_key, 'generation', 'starts'))
return {'OK', now_ms, generation or 0, starts or '', redis.call('HGETALL', shards_key)}
