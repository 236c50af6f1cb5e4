-- queue.lua takes tickets out of their queue.

local queue = {}

-- remove makes tickets wait no more, and ends whatever claims there are on them. free: there are none. Without the key
-- of those whose channels are wanted none of them is.
function queue.remove(keys, ids, free)
  batch.each(ids, function(...)
    redis.call('ZREM', keys.waiting, ...)
    redis.call('ZREM', keys.expiries, ...)
    if keys.listening then
      redis.call('SREM', keys.listening, ...)
    end
    if not free then
      redis.call('ZREM', keys.proposed, ...)
      redis.call('HDEL', keys.claims, ...)
    end
  end)
end
