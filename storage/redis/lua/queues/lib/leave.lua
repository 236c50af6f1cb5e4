-- leave.lua takes tickets out of their queue.

-- define: leave
-- uses: many.each
-- leave makes tickets wait no more, and ends whatever claims there are on them. free: there are none. Without the key of those
-- whose channels are wanted none of them is.
local function leave(keys, ids, free)
  each(ids, function(...)
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
