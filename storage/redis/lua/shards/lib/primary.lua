-- primary.lua recognises a primary that may not know the last claims: one that was promoted or started since, or has
-- got the slot.

local primary = {}

-- history returns the ID of the history of the primary's data. It gets another one when it is promoted or started.
function primary.history()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
end

-- unsure returns since when claims of a data centre know that the primary may have lost some, and 0 if it is the one on
-- which the layout was set. run and since are what the layout has of that: it is written if the primary is another one.
-- A time in the future is from before Redis's clock was set back.
function primary.unsure(layout_key, run, since, now_ms)
  local is, since_ms = primary.history(), tonumber(since or 0)
  if is ~= run or since_ms > now_ms then
    since_ms = now_ms
    redis.call('HSET', layout_key, 'run', is, 'since', time.decimal(now_ms))
  end
  return since_ms
end
