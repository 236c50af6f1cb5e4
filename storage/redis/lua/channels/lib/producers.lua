-- producers.lua checks that publishes of a producer come in order, each once. The key of a channel's producers is a
-- hash with the fields life (the epoch of the life that they are of), order (of the last publish that had one), and for
-- each producer "p" and its ID: "<epoch> <sequence> <clock>", those of its last publish.
--
-- A state is a table: key, life, count (producers), order, at (by ID: epoch, sequence and clock), and what has changed:
-- fields and values for HSET.

local producers = {}

-- MAX is how many producers a life of a channel has at most.
producers.MAX = 1000

-- read returns the state of the producers with some IDs. A hash of another type is damaged, and counts as none. Call it
-- by slot.try: here is another key of the slot, without which the node to which the slot is being moved would take a
-- hash that hasn't arrived for none.
function producers.read(here, key, life, ids)
  slot.read('EXISTS', here, key)
  local fields = {'life', 'order'}
  for _, id in ipairs(ids) do
    fields[#fields + 1] = 'p' .. id
  end
  local values = slot.read('HMGET', key, unpack(fields))
  local state = {key = key, life = life, count = 0, at = {}, changed = {}}
  if not values or values[1] ~= life then
    return state
  end
  state.begun, state.order = true, values[2] or nil
  state.count = redis.call('HLEN', key) - (state.order and 2 or 1)
  for i, id in ipairs(ids) do
    local epoch, sequence, clock = string.match(values[i + 2] or '', '^(%d+) (%d+) (-?%d+)$')
    state.at[id] = epoch and {epoch = tonumber(epoch), sequence = tonumber(sequence), clock = clock}
  end
  return state
end

-- check returns why a producer's publish is refused, with a number: GAP with the expected sequence, FENCED or START
-- with the producer's epoch, MANY; REPEATED if it was accepted before; or nothing if it is the next one.
function producers.check(state, producer)
  local known, why = state.at[producer.id], nil
  if not known then
    if producer.sequence ~= 0 then
      why = 'GAP'
    elseif state.count >= producers.MAX then
      why = 'MANY'
    end
    return why, 0
  elseif producer.epoch ~= known.epoch then
    if producer.epoch < known.epoch then
      why = 'FENCED'
    elseif producer.sequence ~= 0 then
      why = 'START'
    end
    return why, known.epoch
  end
  if producer.sequence <= known.sequence then
    why = 'REPEATED'
    return why, known.sequence
  elseif producer.sequence > known.sequence + 1 then
    why = 'GAP'
  end
  return why, known.sequence + 1
end

-- accept records a publish of a producer whose last message has a clock, as text.
function producers.accept(state, producer, clock)
  if not state.at[producer.id] then
    state.count = state.count + 1
  end
  state.at[producer.id] = {epoch = producer.epoch, sequence = producer.sequence, clock = clock}
  state.changed['p' .. producer.id] = string.format('%d %d %s', producer.epoch, producer.sequence, clock)
end

-- is_after reports whether a text is after another one in the order of their bytes, in which Lua does not compare them.
function producers.is_after(text, other)
  for i = 1, math.min(#text, #other) do
    local a, b = string.byte(text, i), string.byte(other, i)
    if a ~= b then
      return a > b
    end
  end
  return #text > #other
end

-- write stores what has changed, until a time in milliseconds, as text.
function producers.write(state, ends)
  local values = {'life', state.life}
  for field, value in pairs(state.changed) do
    values[#values + 1], values[#values + 2] = field, value
  end
  if not state.begun then
    redis.call('DEL', state.key)
  end
  redis.call('HSET', state.key, unpack(values))
  redis.call('PEXPIREAT', state.key, ends)
end
