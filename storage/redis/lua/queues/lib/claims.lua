-- claims.lua reads, makes and releases claims on tickets. The token of a director of the service is its fence, a dot
-- and a number. That of a hand-out is the ULID of its request, a dash and the number of the match, after "backfill.",
-- the ID of the backfill and a dash if the match has one: a hand-out that nobody got is released alone.

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

-- read returns what the queue has of tickets, each by the ticket's index in ids: created, in microseconds, if there is
-- a key of waiting; expires, the end of its life; ends, the end of the claim on it; and holders, the token of that
-- claim. It sets unclaimed if there is no claim on any.
function claims.read(keys, ids)
  local found = {
    created = keys.waiting and batch.replies('ZMSCORE', keys.waiting, ids),
    expires = batch.replies('ZMSCORE', keys.expiries, ids), ends = batch.replies('ZMSCORE', keys.proposed, ids),
    holders = {}, unclaimed = true,
  }
  for i = 1, #ids do
    found.unclaimed = found.unclaimed and not found.ends[i]
  end
  if not found.unclaimed then
    found.holders = batch.replies('HMGET', keys.claims, ids)
  end
  return found
end

-- gone reports whether ticket i does not wait, or another ticket with its ID does. created_us is when it was created,
-- "" for at any time.
function claims.gone(found, i, created_us, now_ms)
  local created, expires = found.created, found.expires[i]
  if created and (not created[i] or created_us ~= '' and tonumber(created[i]) ~= tonumber(created_us)) then
    return true
  end
  return not expires or tonumber(expires) <= now_ms
end

-- ending returns the end of the claim on ticket i, or false if there is none any more.
function claims.ending(found, i, now_ms)
  local ends = found.ends[i]
  return ends and tonumber(ends) > now_ms and ends
end

-- conflicts returns three values for each of the tickets first to last that cannot be claimed or assigned: its ID, the
-- reason, and the end of another claim or "". A function returns the last two for ticket i, or nil.
function claims.conflicts(ids, first, last, reason)
  local conflicts = {}
  for i = first, last do
    local why, ends = reason(i)
    if why then
      local n = #conflicts
      conflicts[n + 1], conflicts[n + 2], conflicts[n + 3] = ids[i], why, ends or ''
    end
  end
  return conflicts
end

-- hold makes claims on tickets for a token, until a time in milliseconds.
function claims.hold(keys, ids, token, ending)
  local scores, tokens = {}, {}
  for i, id in ipairs(ids) do
    scores[2 * i - 1], scores[2 * i] = ending, id
    tokens[2 * i - 1], tokens[2 * i] = id, token
  end
  batch.each(scores, function(...)
    redis.call('ZADD', keys.proposed, ...)
  end)
  batch.each(tokens, function(...)
    redis.call('HSET', keys.claims, ...)
  end)
end

-- select returns the tickets whose claims' tokens a function accepts.
function claims.select(claims_key, ids, accepts)
  local selected = {}
  for i, token in ipairs(batch.replies('HMGET', claims_key, ids)) do
    if accepts(token) then
      selected[#selected + 1] = ids[i]
    end
  end
  return selected
end

-- held returns the tickets whose claims have a token, or one that begins with it and a dash.
function claims.held(claims_key, ids, token)
  return claims.select(claims_key, ids, function(holder)
    return claims.is(holder, token)
  end)
end

-- release removes the claims on tickets, and appends this to the changes. news is nil if the director knows. The
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
