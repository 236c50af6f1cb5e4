#!lua
-- claim.lua holds tickets for a token until a deadline: those given, or the oldest. Tickets that another token holds
-- are left out until that one's deadline.
--
-- KEYS[1] waiting   zset    IDs of waiting tickets, by creation, in microseconds
-- KEYS[2] expiries  zset    the same IDs, by the ends of their lives, in milliseconds
-- KEYS[3] proposed  zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[4] claims    hash    tokens of the claims, by ID
-- KEYS[5] director  string  the lease of the queue's director
--
-- ARGV[1]  token    string  token of the claim
-- ARGV[2]  fence    string  must be that of the director's lease; empty: the claim needs no lease
-- ARGV[3]  hold_ms  int     from now to the deadline
-- ARGV[4]  limit    int     tickets at most, if no IDs are given
-- ARGV[5…] ids      string  of tickets; none: the oldest
--
-- Returns {"OK", now_us, deadline_ms, {id, …}, {id, held_until_ms, …}, {id, …}}: what the token holds, and of the IDs
-- given what others hold and what doesn't wait; or {"LEASE"} if that lease isn't held and nothing was changed.
-- Safe to run twice: yes, the token holds the tickets until the new deadline.
local waiting_key, expiries_key, proposed_key, claims_key, director_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, fence, hold_ms, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local ids = {unpack(ARGV, 5)}

local now, now_ms = time.now()
if fence ~= '' and lease.holder(director_key, now_ms) ~= fence then
  return {'LEASE'}
end
acl.require(claims_key, 'HSET', 'PEXPIREAT')
local deadline = time.decimal(now_ms + hold_ms)
local keys = {expiries = expiries_key, proposed = proposed_key, claims = claims_key}
local claimed, held, gone = {}, {}, {}

-- claim claims those of the tickets that can be claimed, up to a limit.
local function claim(tickets, max)
  local found, free = claims.read(keys, tickets), {}
  for i, id in ipairs(tickets) do
    local ends = claims.ending(found, i, now_ms)
    if claims.gone(found, i, '', now_ms) then
      gone[#gone + 1] = id
    elseif ends and found.holders[i] ~= token then
      held[#held + 1], held[#held + 2] = id, ends
    elseif #free < max then
      free[#free + 1], claimed[#claimed + 1] = id, id
    end
  end
  claims.hold(keys, free, token, deadline)
end

if #ids > 0 then
  claim(ids, #ids)
else
  local page = math.min(math.max(limit, 100), 1000)
  for at = 0, 19 * page, page do
    local oldest = #claimed < limit and redis.call('ZRANGE', waiting_key, at, at + page - 1) or {}
    if #oldest == 0 then
      break
    end
    claim(oldest, limit - #claimed)
  end
  held, gone = {}, {}
end
if #claimed > 0 then
  time.prolong(now_ms, hold_ms + time.DAY_MS, proposed_key, claims_key)
end
return {'OK', time.decimal(now), deadline, claimed, held, gone}
