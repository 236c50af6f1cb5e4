#!lua flags=allow-oom
-- free.lua releases tickets that were handed out, whoever got them. It leaves those that a director of the
-- service has claimed. It may run when Redis is out of memory.
--
-- KEYS[1] proposed  zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[2] claims    hash    tokens of the claims, by ID
-- KEYS[3] director  string  the lease of the queue's director
-- KEYS[4] changes   stream  tickets that were created, cancelled or released
--
-- ARGV[1]  nudges  string  sharded pub/sub channel of the queue
-- ARGV[2]  feed    string  sharded pub/sub channel of its director
-- ARGV[3]  from    int     if no IDs are given: where to begin in proposed
-- ARGV[4…] ids     string  of tickets; none: of a thousand claims
--
-- Returns {"OK", more}: where to begin the next time, or "" if there are no more.
-- Safe to run twice: yes, the second run finds none that were handed out.
local proposed_key, claims_key, director_key, changes_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local nudges, feed, from, ids = ARGV[1], ARGV[2], tonumber(ARGV[3]), batch.from(ARGV, 4)

local _, now_ms = time.now()
local more
if #ids == 0 then
  ids = redis.call('ZRANGE', proposed_key, from, from + batch.SIZE - 1)
  more = #ids == batch.SIZE and from + #ids or nil
end
local claimed = claims.select(claims_key, ids, claims.handed_out)
if #claimed == 0 then
  return {'OK', more and time.decimal(more) or ''}
end
acl.require(changes_key, 'ZREM', 'HDEL', 'XADD', 'PEXPIREAT')
local news = changes.begin(now_ms, changes_key, redis.call('GET', director_key), {nudges, feed})
claims.release(now_ms, {proposed = proposed_key, claims = claims_key, changes = changes_key}, claimed, news)
return {'OK', more and time.decimal(more - #claimed) or ''}
