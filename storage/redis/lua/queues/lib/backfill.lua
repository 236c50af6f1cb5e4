-- backfill.lua reads and writes backfills. The fields of a backfill's hash are
--
--   generation  int     1, and one more with each update and each match that has the backfill
--   created     int     when it was created, in microseconds
--   content     string  protobuf: search fields and extensions
--   persistent  string  protobuf: the persistent field
--   attempt     string  of the last change of the generation
--   tickets     string  IDs of the associated tickets, each after a blank; "": none
--   match       string  ID of the match of the tickets that were last assigned
--   matched     string  IDs of those tickets, each after a blank

local backfill = {}

-- state returns a backfill's fields by name, and the end of its life in milliseconds. The fields are nil if the life
-- has ended. Both are nil if there is no backfill.
function backfill.state(now_ms, backfills_key, backfill_key, id)
  return backfill.fields(now_ms, backfill_key, redis.call('ZSCORE', backfills_key, id))
end

-- fields is state with the end of the life, or false if the backfill has none.
function backfill.fields(now_ms, backfill_key, expires)
  local found, fields = expires and redis.call('HGETALL', backfill_key) or {}, {}
  if #found == 0 then
    return nil, nil
  elseif tonumber(expires) <= now_ms then
    return nil, expires
  end
  for i = 1, #found, 2 do
    fields[found[i]] = found[i + 1]
  end
  return fields, expires
end

-- reply returns a backfill for the caller of a script: {expires_ms, generation, created_us, content, persistent,
-- tickets}.
function backfill.reply(fields, expires)
  return {expires, fields.generation, fields.created, fields.content, fields.persistent, fields.tickets}
end

-- list returns the IDs in a field.
function backfill.list(text)
  local ids = {}
  for id in string.gmatch(text, '%S+') do
    ids[#ids + 1] = id
  end
  return ids
end

-- text returns IDs as a field has them.
function backfill.text(ids)
  return #ids > 0 and ' ' .. table.concat(ids, ' ') or ''
end

-- keep returns when the hash of a backfill expires: about a day after the end of its life, rounded up to a tenth of a
-- day, so that few acknowledgements change it. By then a director has removed it.
function backfill.keep(expires)
  return (math.floor(expires * 10 / time.DAY_MS) + 11) * (time.DAY_MS / 10)
end

-- change stores fields of a backfill after a change of its generation.
function backfill.change(backfill_key, fields, expires, attempt)
  fields.attempt = attempt
  redis.call('HSET', backfill_key, 'generation', fields.generation, 'created', fields.created,
    'content', fields.content, 'persistent', fields.persistent, 'attempt', attempt, 'tickets', fields.tickets,
    'match', fields.match or '', 'matched', fields.matched or '')
  redis.call('PEXPIREAT', backfill_key, time.decimal(backfill.keep(tonumber(expires))))
end
