-- claims.lua releases tickets that were handed out, or that a backfill has. The token of a director of the service is
-- its fence, a dot and a number. That of a hand-out is the ULID of its request, a dash and the number of the match,
-- after "backfill.", the ID of the backfill and a dash if the match has one: a hand-out that nobody got is released
-- alone.

local claims = {}

-- DIRECTOR matches the token of a director of the service. It captures the fence.
claims.DIRECTOR = '^(%d+)%.%d+$'

-- handed_out reports whether a claim is not a director's.
function claims.handed_out(token)
  return token and not string.match(token, claims.DIRECTOR)
end

-- backfill returns what the tokens of all hand-outs with a backfill begin with.
function claims.backfill(id)
  return 'backfill.' .. id
end

-- is reports whether a claim has a token, or one that begins with it and a dash.
function claims.is(holder, token)
  return holder and (holder == token or string.sub(holder, 1, #token + 1) == token .. '-')
end

-- held returns those of some tickets whose tokens a function accepts.
function claims.held(claims_key, ids, accepts)
  local mine = {}
  for i, token in ipairs(batch.replies('HMGET', claims_key, ids)) do
    if accepts(token) then
      mine[#mine + 1] = ids[i]
    end
  end
  return mine
end

-- release removes the claims on some tickets, and appends this to the changes. news is nil if the director knows. The
-- keys are proposed, claims and changes.
function claims.release(now_ms, keys, ids, news)
  batch.each(ids, function(...)
    redis.call('ZREM', keys.proposed, ...)
    redis.call('HDEL', keys.claims, ...)
  end)
  if news and #ids > 0 then
    for _, id in ipairs(ids) do
      changes.append(news, id, {'released', '1'}, '0 -2 ')
    end
    time.prolong(now_ms, time.DAY_MS, keys.changes)
    changes.notify(news)
  end
end
