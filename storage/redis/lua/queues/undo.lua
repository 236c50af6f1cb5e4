#!lua flags=allow-oom
-- undo.lua removes a ticket that a failed attempt has created, unless another attempt has found it there: then it only
-- removes the attempt from the ticket's attempts. If there is no ticket it writes a tombstone for the attempt, which
-- may still be on its way. It may run when Redis is out of memory.
--
-- KEYS[1] ticket     string  the ticket
-- KEYS[2] waiting    zset    IDs of waiting tickets, by creation, in microseconds
-- KEYS[3] expiries   zset    the same IDs, by the ends of their lives, in milliseconds
-- KEYS[4] proposed   zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[5] claims     hash    tokens of the claims, by ID
-- KEYS[6] changes    stream  tickets that were created or cancelled
-- KEYS[7] director   string  the lease of the queue's director
-- KEYS[8] listening  set     IDs of waiting tickets whose assignments have to be published
--
-- ARGV[1] id        string  the ticket's
-- ARGV[2] attempt   ULID    that is undone
-- ARGV[3] keep_ms   int     how long the tombstone is kept
-- ARGV[4] nudges    string  sharded pub/sub channel of the queue
-- ARGV[5] feed      string  sharded pub/sub channel of its director
-- ARGV[6] assigned  string  sharded pub/sub channel for players that wait for assignments
--
-- Returns {"OK"} if there is no ticket now, or {"KEPT"} if there is one.
-- Safe to run twice: yes, the second run finds the tombstone.
local ticket_key, waiting_key, expiries_key, proposed_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local claims_key, changes_key, director_key, listening_key = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local id, attempt, keep_ms, nudges, feed, assigned = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local found = redis.call('GET', ticket_key) or 'U'
if string.sub(found, 1, 1) == 'U' then
  redis.call('SET', ticket_key, found .. ' ' .. attempt, 'PX', keep_ms)
  return {'OK'}
end
local created = redis.call('ZSCORE', waiting_key, id)
if not created or not ticket.disown(ticket_key, found, attempt) then
  return {'KEPT'}
end
acl.require(changes_key, 'SREM', 'HDEL', 'SET', 'XADD', 'PEXPIREAT')
acl.require_publish(assigned)
local _, now_ms = time.now()
local news = changes.begin(now_ms, changes_key, redis.call('GET', director_key), {nudges, feed})

local keys = {
  waiting = waiting_key, expiries = expiries_key, listening = listening_key,
  proposed = proposed_key, claims = claims_key,
}
queue.remove(keys, {id})
redis.call('SET', ticket_key, 'U ' .. attempt, 'PX', keep_ms)
changes.append(news, id, {}, '0 -1 ')
time.prolong(now_ms, time.DAY_MS, changes_key)
changes.notify(news)
redis.call('SPUBLISH', assigned, notice.removed(id, created))
return {'OK'}
