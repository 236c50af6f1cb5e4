#!lua flags=allow-oom
-- renew.lua makes tickets that wait live for their TTL from now on, up to the end of their whole life. It may run
-- when Redis is out of memory.
--
-- KEYS[1]  waiting   zset    IDs of waiting tickets, by creation, in microseconds
-- KEYS[2]  expiries  zset    the same IDs, by the ends of their lives, in milliseconds
-- KEYS[3]  listening set     IDs of waiting tickets whose assignments have to be published
-- KEYS[4…] tickets   string  the tickets
--
-- ARGV[1…] ids  string  theirs, in the same order
--
-- Returns {"OK"}.
-- Safe to run twice: yes.
local waiting_key, expiries_key, listening_key, tickets = KEYS[1], KEYS[2], KEYS[3], {unpack(KEYS, 4)}
local ids = {unpack(ARGV, 1)}

acl.require(expiries_key, 'PEXPIREAT', 'ZADD')
local _, now_ms = time.now()
local longest = 0
for i, expires in ipairs(redis.call('ZMSCORE', expiries_key, unpack(ids))) do
  if expires and tonumber(expires) > now_ms then
    local head = redis.call('GETRANGE', tickets[i], 0, 79)
    local created_us, ttl, keep, life = string.match(head, '^S(%d+) (%d+) (%d+) (%d+) ')
    if ttl then
      local ends = math.min(now_ms + ttl, math.floor(created_us / 1000) + life)
      longest = math.max(longest, ttl)
      redis.call('PEXPIREAT', tickets[i], time.decimal(ends + keep))
      redis.call('ZADD', expiries_key, 'XX', time.decimal(ends), ids[i])
    end
  end
end
time.prolong(now_ms, longest + time.DAY_MS, waiting_key, expiries_key, listening_key)
return {'OK'}
