-- leave.lua takes tickets out of their queue.

-- define: leave
-- uses: many.each
-- leave makes tickets wait no more, and ends whatever claims there are on them. free: there are none.
local function leave(keys, ids, free)
  each(ids, function(...)
    redis.call('ZREM', keys.waiting, ...)
    redis.call('ZREM', keys.expiries, ...)
    if not free then
      redis.call('ZREM', keys.proposed, ...)
      redis.call('HDEL', keys.claims, ...)
    end
  end)
end
