-- fetch.lua reads the messages after a subscriber's mark, or after a position ahead of it, and renews the life of the
-- channel and the mark. A tail has no subscriber: it reads after a position, or from another beginning, and writes
-- nothing. The script has no #! line: Redis then refuses single commands instead of the script, so that messages can be
-- read when memory is full, and, while 9/10 of the mark's life are left, even when Redis refuses all writes.
--
-- KEYS[1] clock    string  the last clock given out
-- KEYS[2] epoch    string  ULID of this life of the channel
-- KEYS[3] mark     string  the subscriber's mark; of a tail there is none
-- KEYS[4] subs     set     names of subscribers
-- KEYS[5] message  string  the message at the position; only if there is one
-- KEYS[6] record   string  dedup record of the position's message ID; only if that is known
--
-- ARGV[1]  message_prefix  string  what the channel's message keys start with
-- ARGV[2]  ttl_ms          int     life of the channel and the mark without activity; 0: a tail renews nothing
-- ARGV[3]  max             int     messages at most; 0: only where a tail begins
-- ARGV[4]  max_bytes       int     bytes of messages at most, but always `least` messages
-- ARGV[5]  max_messages    int     messages that the channel keeps at most; 0: no limit
-- ARGV[6]  wait_ms         int     how long the caller is going to wait if there are no messages
-- ARGV[7]  least           int     messages to return even if they have more than max_bytes: 0 or 1
-- ARGV[8]  from            string  "mark"; or where a tail begins: "latest", "earliest" or a clock, a decimal string
-- ARGV[9]  purged          string  the key of the purged clocks
-- ARGV[10] identify        int     1: also return the message at `through` if no messages were found
-- ARGV[11] after           clock   the position's, a decimal string; this and the next only if there is a position
-- ARGV[12] after_epoch     ULID    the position's
-- ARGV[13] after_id        string  of the message at the position; empty: none is known
-- ARGV[14] after_write     string  the write that stored that message; empty: not known; "*": any message may be there
-- ARGV[15] after_ends      int     when that message expires, in milliseconds; empty: not known
-- ARGV[16] ahead           int     1: begin at the position if the mark has not passed it; 0: only check it
--
-- Returns {"OK", life, mark, after, clock, through, expired, purged, lost, {id, write, at}, {at, {message, …}, at,
-- {message, …}, …}}, {"NO_SUBSCRIBER"}, or {"MOVING"} if the slot is half moved. For a tail also {"NO_CHANNEL"}, and
-- {"FROM_AHEAD"} if there is no position and the clock where it begins is ahead of the channel's. `after` is where it
-- has begun to read: the position, or the mark if there is no position, or if the mark has passed it, or if it is not
-- one of this history, as lost says: 0 or 1. For a tail it is where it begins in place of the mark, and the mark is the
-- same; a position of an earlier life makes it begin at the earliest one. The first list is the message at `through`;
-- it is empty if that was not asked for, or is gone. `life` is the value of the epoch's key. Messages are listed in
-- clock order, the first of a list being the one at the clock in front of the list; a message that is gone is nil.
-- Safe to run twice: yes, it moves nothing.
local keys = {clock = KEYS[1], epoch = KEYS[2], mark = KEYS[3], subs = KEYS[4], message = KEYS[5], record = KEYS[6]}
local position = ARGV[11] and {at = ARGV[11], epoch = ARGV[12], id = ARGV[13], write = ARGV[14], ends = ARGV[15]}
local ahead = ARGV[16] == '1'
local from = ARGV[8]
local message_prefix, ttl_ms, wait_ms, least = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[6]), tonumber(ARGV[7])
local log = {count = tonumber(ARGV[3]), bytes = tonumber(ARGV[4]), keeps = tonumber(ARGV[5]), least = least}
local purged_key, identify = ARGV[9], ARGV[10] == '1'

if position then
  position.clock = tonumber(position.at)
end
local tails = from ~= 'mark'
local clock, epoch, mark, properties, value = channel.position(keys.clock, keys.epoch, not tails and keys.mark)
if not tails and not mark then
  return {'NO_SUBSCRIBER'}
elseif not clock then
  return {'NO_CHANNEL'}
end
log.prefix, log.here, log.purged = message_prefix, keys.clock, purged_key
if position then
  position.ends = ack.expected_end(properties, position.ends)
end
local lost = position and not ack.known(keys, position, log.keeps, epoch, mark, clock)
local after = mark
if position and ahead and not lost and (tails or clocks.between(mark, position.clock, clock)) then
  after = position.clock
end
local ok, read
if not after then
  if position and position.epoch ~= epoch then
    from = 'earliest'
  end
  ok, after = slot.try(messages.beginning, log, from, clock)
  if not ok then
    return {'MOVING'}
  elseif not clocks.behind(after, clock) then
    if not position then
      return {'FROM_AHEAD'}
    end
    after = clock
  end
end
ok, read = slot.try(messages.read, log, after, clock)
if not ok then
  return {'MOVING'}
end
if tails then
  channel.renew_after_read(keys, ttl_ms > 0 and properties, wait_ms)
else
  channel.renew_after_poll(keys, properties, channel.ttl(properties, ttl_ms), wait_ms, read.through ~= after)
end
local last = {}
if identify and #read.found == 0 then
  ok, last = slot.try(messages.last, log, read.through)
  if not ok then
    return {'MOVING'}
  end
end
return {'OK', value, clocks.show(mark or after), clocks.show(after), clocks.show(clock), clocks.show(read.through),
  clocks.show(read.expired), clocks.show(read.purged), lost and 1 or 0, last, read.found}
