-- registry.lua records what changed among API keys and revocations, and removes what has ended.

-- define: MOST_CHANGES
local MOST_CHANGES = 4096

-- define: CHANGES_LIFE_MS
local CHANGES_LIFE_MS = 2592000000

-- define: note
-- uses: registry.MOST_CHANGES registry.CHANGES_LIFE_MS
-- note adds a change and notifies all servers. The token distinguishes it from one that a fail-over lost, whose place it has.
local function note(changes, token, topic, what, name)
  redis.call('XADD', changes, 'MAXLEN', '~', MOST_CHANGES, '*', 'token', token, what, name)
  redis.call('PEXPIRE', changes, CHANGES_LIFE_MS)
  redis.call('SPUBLISH', topic, token)
end

-- define: latest
-- latest returns the ID and the token of the last change, "" and "" if there is none.
local function latest(changes)
  local last = redis.call('XREVRANGE', changes, '+', '-', 'COUNT', 1)[1]
  if not last then
    return '', ''
  end
  return last[1], last[2][2]
end

-- define: SWEEP
-- How many values that have ended a call removes: more than it adds.
local SWEEP = 100

-- define: sweep
-- uses: registry.SWEEP time.decimal
-- sweep removes some of what has ended.
local function sweep(now_ms, ends, ...)
  local ended = redis.call('ZRANGE', ends, '-inf', decimal(now_ms), 'BYSCORE', 'LIMIT', 0, SWEEP)
  if #ended > 0 then
    for _, key in ipairs({...}) do
      redis.call('HDEL', key, unpack(ended))
    end
    redis.call('ZREM', ends, unpack(ended))
  end
end
