#!lua flags=allow-oom
-- cancel.lua cancels a waiting or deindexed ticket. It can also remove an assigned one, and deindex a waiting one. It
-- may run when Redis is out of memory.
--
-- KEYS[1]  ticket      string  the ticket
-- KEYS[2]  assignment  string  its assignment
-- KEYS[3]  waiting     zset    IDs of waiting tickets, by creation, in microseconds
-- KEYS[4]  expiries    zset    the same IDs, by the ends of their lives, in milliseconds
-- KEYS[5]  proposed    zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[6]  claims      hash    tokens of the claims, by ID
-- KEYS[7]  changes     stream  tickets that were created or cancelled
-- KEYS[8]  stats       hash    counts
-- KEYS[9]  director    string  the lease of the queue's director
-- KEYS[10] listening   set     IDs of waiting tickets whose assignments have to be published
--
-- ARGV[1] id               string  the ticket's
-- ARGV[2] keep_ms          int     how long it can be read as cancelled, at most a day; "": as long as after its life
-- ARGV[3] remove_assigned  int     1: an assigned ticket is removed; 0: it stays
-- ARGV[4] deindex          int     1: the ticket can be read until its life ends, for at most as long as after that,
--                                  and then as cancelled for as long again; 0: it is cancelled
-- ARGV[5] nudges           string  sharded pub/sub channel of the queue
-- ARGV[6] feed             string  sharded pub/sub channel of its director
-- ARGV[7] assigned         string  sharded pub/sub channel for players that wait for assignments
--
-- Returns {"OK"}, also if the ticket doesn't wait, {"MATCHED"} if it is assigned and stays, or {"NO_TICKET"}.
-- Safe to run twice: yes, the second run changes nothing.
local ticket_key, assignment_key, waiting_key, expiries_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local proposed_key, claims_key, changes_key, stats_key = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local director_key, listening_key = KEYS[9], KEYS[10]
local id, keep_ms, remove_assigned, deindex = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local nudges, feed, assigned = ARGV[5], ARGV[6], ARGV[7]

local _, now_ms = time.now()

-- own_keep returns how long the ticket can be read after it has left the queue.
local function own_keep()
  return ticket.keep(redis.call('GETRANGE', ticket_key, 0, 79))
end

-- cancel makes the ticket, if there is one, one that can be read as cancelled. A deindexed one ends no later than
-- before, since nobody counts it.
local function cancel(kind)
  local ends = now_ms + (keep_ms and math.min(keep_ms, ticket.MAX_KEEP_MS) or own_keep())
  if kind == 'D' then
    ends = math.min(ends, redis.call('PEXPIRETIME', ticket_key))
  end
  if redis.call('PEXPIREAT', ticket_key, time.decimal(ends)) == 1 then
    redis.call('SETRANGE', ticket_key, 0, 'C')
  end
end

-- deindexed makes a waiting ticket a deindexed one, whose life ends at expires_ms or sooner: maxTickets doesn't count
-- it any more.
local function deindexed(expires_ms)
  local keep = own_keep()
  redis.call('SETRANGE', ticket_key, 0, 'D')
  redis.call('PEXPIREAT', ticket_key, time.decimal(math.min(expires_ms, now_ms + keep) + keep))
end

local expires = redis.call('ZSCORE', expiries_key, id)
if not expires and redis.call('EXISTS', assignment_key) == 1 then
  if remove_assigned == '0' then
    return {'MATCHED'}
  end
  acl.require_publish(assigned)
  local created = string.match(redis.call('GETRANGE', ticket_key, 0, 20), '^S(%d+) ')
  redis.call('DEL', ticket_key, assignment_key)
  redis.call('SPUBLISH', assigned, notice.removed(id, created))
  return {'OK'}
end
local kind = redis.call('GETRANGE', ticket_key, 0, 0)
if not expires and (kind == '' or kind == 'U') then
  return {'NO_TICKET'}
end
acl.require(changes_key, 'SREM', 'HDEL', 'PEXPIREAT', 'SETRANGE', 'XADD', 'HINCRBY')
if not expires or tonumber(expires) <= now_ms then
  if kind == 'D' and not deindex then
    cancel(kind)
  end
  return {'OK'}
end
acl.require_publish(assigned)
local news = changes.begin(now_ms, changes_key, redis.call('GET', director_key), {nudges, feed})

local created = redis.call('ZSCORE', waiting_key, id)
local keys = {
  waiting = waiting_key, expiries = expiries_key, listening = listening_key,
  proposed = proposed_key, claims = claims_key,
}
queue.remove(keys, {id})
if not deindex then
  cancel(kind)
elseif kind == 'S' then
  deindexed(tonumber(expires))
end
changes.append(news, id, {}, '0 -1 ')
time.prolong(now_ms, time.DAY_MS, changes_key)
redis.call('HINCRBY', stats_key, 'cancelled', 1)
time.prolong(now_ms, time.DAY_MS, stats_key)
changes.notify(news)
redis.call('SPUBLISH', assigned, notice.removed(id, created))
return {'OK'}
