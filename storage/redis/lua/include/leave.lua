-- leave.lua takes tickets out of their queue.

-- leave makes tickets wait no more, and ends whatever claims there are on them.
local function leave(keys, ids)
  redis.call('ZREM', keys.waiting, unpack(ids))
  redis.call('ZREM', keys.expiries, unpack(ids))
  redis.call('ZREM', keys.proposed, unpack(ids))
  redis.call('HDEL', keys.claims, unpack(ids))
end
