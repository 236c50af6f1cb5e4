#!lua flags=allow-oom
-- release.lua releases those of some tickets that a token holds. It may run when Redis is out of memory.
--
-- KEYS[1] proposed  zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[2] claims    hash    tokens of the claims, by ID
-- KEYS[3] director  string  the lease of the queue's director
-- KEYS[4] changes   stream  tickets that were created, cancelled or released
--
-- ARGV[1]  token   string  of the claims: a director's fence and a number, or that of a request of handout.lua, for
--                         those of all its matches, after the backfill for those with one
-- ARGV[2]  nudges  string  sharded pub/sub channel of the queue
-- ARGV[3]  feed    string  sharded pub/sub channel of its director
-- ARGV[4…] ids     string  of tickets
--
-- Returns {"OK"}.
-- Safe to run twice: yes, the second run finds nothing that the token holds.
local proposed_key, claims_key, director_key, changes_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, nudges, feed, ids = ARGV[1], ARGV[2], ARGV[3], batch.from(ARGV, 4)

local claimed = claims.held(claims_key, ids, token)
if #claimed == 0 then
  return {'OK'}
end
-- The director must be notified of tickets that others release.
local director = redis.call('GET', director_key)
local foreign = time.decimal((lease.parse(director))) ~= string.match(token, '^[^.]*')
acl.require(changes_key, 'HDEL', foreign and 'XADD' or 'HDEL', 'PEXPIREAT')
local _, now_ms = time.now()
local news = foreign and changes.begin(now_ms, changes_key, director, {nudges, feed})
claims.release(now_ms, {proposed = proposed_key, claims = claims_key, changes = changes_key}, claimed, news)
return {'OK'}
