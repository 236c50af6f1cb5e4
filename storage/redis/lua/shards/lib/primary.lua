-- primary.lua detects a primary that may have lost claims: it was promoted or started since, or the slot was moved to
-- it.

local primary = {}

-- history returns the primary's replication ID, which changes when it is promoted or started.
function primary.history()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
end

-- unsure returns when it was noticed that the primary may have lost claims, or 0 if the layout was set on this primary.
-- run and since are the layout's fields for that, which are updated if the primary is another one, or if since is in
-- the future because Redis's clock was set back.
function primary.unsure(layout_key, run, since, now_ms)
  local is, since_ms = primary.history(), tonumber(since or 0)
  if is ~= run or since_ms > now_ms then
    since_ms = now_ms
    redis.call('HSET', layout_key, 'run', is, 'since', time.decimal(now_ms))
  end
  return since_ms
end
