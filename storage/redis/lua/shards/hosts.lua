#!lua flags=no-writes
-- hosts.lua reads at which addresses the holders of a data centre are.
-- uses: time.time holder.front
--
-- KEYS[1] shards  hash  holders of the data centre, by host
--
-- Returns {"OK", addresses}.
-- Safe to run twice: yes, it only reads.
local shards_key = KEYS[1]

local _, now_ms = time()
local addresses = {}
for _, value in ipairs(redis.call('HVALS', shards_key)) do
  local until_ms, _, _, _, rest = front(value, now_ms)
  if until_ms > now_ms then
    addresses[#addresses + 1] = string.match(rest, '%S+$')
  end
end
return {'OK', addresses}
