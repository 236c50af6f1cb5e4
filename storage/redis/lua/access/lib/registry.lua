-- registry.lua records changes of API keys and revocations, and removes expired ones.

local registry = {}

registry.MOST_CHANGES = 4096

registry.CHANGES_LIFE_MS = 2592000000

-- record adds a change and notifies all servers. The token distinguishes it from a change with the same ID that a
-- fail-over lost.
function registry.record(changes, token, topic, what, name)
  redis.call('XADD', changes, 'MAXLEN', '~', registry.MOST_CHANGES, '*', 'token', token, what, name)
  redis.call('PEXPIRE', changes, registry.CHANGES_LIFE_MS)
  redis.call('SPUBLISH', topic, token)
end

-- latest returns the ID and the token of the last change, "" and "" if there is none.
function registry.latest(changes)
  local last = redis.call('XREVRANGE', changes, '+', '-', 'COUNT', 1)[1]
  if not last then
    return '', ''
  end
  return last[1], last[2][2]
end

-- The number of expired values that a call removes: more than it adds.
registry.SWEEP = 100

-- sweep removes some expired values.
function registry.sweep(now_ms, ends, ...)
  local ended = redis.call('ZRANGE', ends, '-inf', time.decimal(now_ms), 'BYSCORE', 'LIMIT', 0, registry.SWEEP)
  if #ended > 0 then
    for _, key in ipairs({...}) do
      redis.call('HDEL', key, unpack(ended))
    end
    redis.call('ZREM', ends, unpack(ended))
  end
end
