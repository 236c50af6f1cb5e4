-- queue.lua removes tickets from the keys of their queue.

local queue = {}

-- remove removes tickets from waiting, expiries, listening, proposed and claims. Without a key of listening, proposed
-- or claims, no ticket is in it.
function queue.remove(keys, ids)
  batch.each(ids, function(...)
    redis.call('ZREM', keys.waiting, ...)
    redis.call('ZREM', keys.expiries, ...)
    if keys.listening then
      redis.call('SREM', keys.listening, ...)
    end
    if keys.proposed then
      redis.call('ZREM', keys.proposed, ...)
    end
    if keys.claims then
      redis.call('HDEL', keys.claims, ...)
    end
  end)
end
