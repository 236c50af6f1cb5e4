#!lua
-- open.lua begins a life of a channel with a label: with a new epoch, and a subscriber whose mark is at the channel's
-- clock. It creates the channel if it does not exist.
--
-- KEYS[1] clock  string  the last clock given out
-- KEYS[2] epoch  string  ULID of this life of the channel
-- KEYS[3] mark   string  the subscriber's mark
-- KEYS[4] subs   set     names of subscribers
-- KEYS[5] label  string  text that the channel carries
--
-- ARGV[1] subscriber   string  its name
-- ARGV[2] text         string  the label
-- ARGV[3] new_epoch    ULID    of the life that begins, later than the one that it replaces
-- ARGV[4] replaces     ULID    of the life that ends; empty: the channel has no label
-- ARGV[5] mark_prefix  string  what the channel's mark keys start with
-- ARGV[6] ttl_ms       int     life of the channel and the mark without activity
--
-- Returns {"OK", epoch, label} of the channel's current life: the new one, or another one if the channel has a label
-- and isn't in the life to replace; then nothing was written. Returns {"AGAIN"} if marks of an earlier life remain to
-- be removed; nothing else was written.
-- Safe to run twice: yes, the second run finds the channel in the new life.
local clock_key, epoch_key, mark_key, subs_key, label_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local subscriber, text, new_epoch, replaces = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local mark_prefix, ttl_ms = ARGV[5], tonumber(ARGV[6])

local clock, epoch = channel.position(clock_key, epoch_key, mark_key)
local label = clock and redis.call('GET', label_key)
if label and epoch ~= replaces then
  return {'OK', epoch, label}
end

local had, now = channel.expiry(clock_key)
local ends = now + ttl_ms
local life = clocks.show(math.max(ends, had))
if not clock and not channel.clear(subs_key, mark_prefix) then
  return {'AGAIN'}
end
local at = clocks.show(clock or 0)
redis.call('SET', clock_key, at, 'PXAT', life)
redis.call('SET', epoch_key, new_epoch, 'PXAT', life)
redis.call('SET', mark_key, at, 'PXAT', clocks.show(ends))
redis.call('SADD', subs_key, subscriber)
redis.call('PEXPIREAT', subs_key, life)
redis.call('SET', label_key, text, 'PXAT', life)
return {'OK', new_epoch, text}
