-- assignment.lua stores assignments of tickets, and takes these out of the queue.

local assignment = {}

-- put stores an assignment until a time. With an outbox it appends it there, too, with the match's ID and the epoch,
-- and returns the entry. Otherwise it returns ''.
function assignment.put(keys, ending, id, content, outbox_key, match, epoch)
  redis.call('PEXPIREAT', keys.ticket, ending)
  redis.call('SET', keys.assignment, content, 'PXAT', ending)
  if outbox_key then
    return redis.call('XADD', outbox_key, '*', 'ticket', id, 'match', match, 'epoch', epoch, 'content', content)
  end
  return ''
end

-- record stores the record of a match, which has an id, a mark and a record, after its mark, and how long its tickets
-- waited.
function assignment.record(key, matched_key, now, keep_ms, match, waits)
  redis.call('SET', key, match.mark .. time.decimal(now) .. ' ' .. match.record, 'PX', math.max(keep_ms, 60000))
  redis.call('XADD', matched_key, 'MAXLEN', '~', 1000, '*', 'waits', table.concat(waits, ' '), 'match', match.id)
end

-- finish takes assigned tickets out of the queue and counts them. With a topic it notifies players. The lives of the
-- first key of prolonged and of matched are prolonged.
function assignment.finish(now_ms, keys, ids, topic, notification, prolonged)
  queue.remove(keys, ids)
  redis.call('HINCRBY', keys.stats, 'matched', #ids)
  if topic then
    redis.call('SPUBLISH', topic, notification)
  end
  time.prolong(now_ms, time.DAY_MS, prolonged, keys.matched)
  time.prolong(now_ms, time.DAY_MS, keys.stats)
end
