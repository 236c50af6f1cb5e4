-- matching.lua decides which matches of a call can be assigned.

local matching = {}

-- parse returns the matches of a call and the IDs of their tickets. A match has the indices of its first and last
-- ticket. The IDs of a ticket i, and its texts after that, begin at texts[match.texts + 4 * i], its keys at
-- keys[match.keys + 2 * i].
function matching.parse(texts, keys, token)
  local matches, ids, text, key = {}, {}, 1, 1
  while text <= #texts do
    local first, count = #ids + 1, tonumber(texts[text + 2])
    local match = {
      id = texts[text], record = texts[text + 1], key = keys[key], first = first, last = #ids + count,
      texts = text + 3 - 4 * first, keys = key + 1 - 2 * first,
    }
    for i = first, match.last do
      ids[i] = texts[match.texts + 4 * i]
    end
    match.mark = token .. ' ' .. redis.sha1hex(table.concat(ids, ' ', first)) .. ' '
    matches[#matches + 1] = match
    text, key = text + 3 + 4 * count, key + 1 + 2 * count
  end
  return matches, ids
end

-- marked returns what the keys of some matches hold, by key.
function matching.marked(matches)
  local keys, found, marks = {}, {}, {}
  for i, match in ipairs(matches) do
    keys[i] = match.key
  end
  batch.each(keys, function(...)
    for _, value in ipairs(redis.call('MGET', ...)) do
      found[#found + 1] = value or ''
    end
  end)
  for i, key in ipairs(keys) do
    marks[key] = found[i]
  end
  return marks
end

-- judge returns when each of some tickets was made, and a function that returns why the i-th can't be assigned, if it
-- can't: any is whether one that nobody holds can be. If another token holds it, it also returns until when, in
-- milliseconds. The third result is whether there are no claims on any of them.
function matching.judge(now_ms, keys, ids, token, any)
  local created, expires = batch.replies('ZMSCORE', keys.waiting, ids), batch.replies('ZMSCORE', keys.expiries, ids)
  local ends, free = batch.replies('ZMSCORE', keys.proposed, ids), true
  for i = 1, #ids do
    free = free and not ends[i]
  end
  local holders = free and {} or batch.replies('HMGET', keys.claims, ids)
  return created, function(i, made)
    local other = created[i] and made ~= '' and tonumber(created[i]) ~= tonumber(made)
    if not created[i] or other or not expires[i] or tonumber(expires[i]) <= now_ms then
      return 'gone'
    end
    local held = ends[i] and tonumber(ends[i]) > now_ms
    if held and holders[i] ~= token or not held and not any then
      return 'claim', held and ends[i]
    end
  end, free
end

-- take marks the tickets of a match as taken, if each can be and none is. Otherwise it returns those that can't be,
-- each followed by the reason, and by until when another token holds it or "".
function matching.take(match, ids, texts, taken, reason)
  local conflicts = {}
  for i = match.first, match.last do
    local why, ends = reason(i, texts[match.texts + 4 * i + 1])
    if taken[ids[i]] or why then
      local n = #conflicts
      conflicts[n + 1], conflicts[n + 2], conflicts[n + 3] = ids[i], taken[ids[i]] and 'gone' or why, ends or ''
    else
      taken[ids[i]] = match
    end
  end
  for i = match.first, #conflicts > 0 and match.last or 0 do
    if taken[ids[i]] == match then
      taken[ids[i]] = nil
    end
  end
  return #conflicts > 0 and conflicts or nil
end

-- wanted returns whose assignments are messages, by the indices of tickets: of each that has the epoch of a channel's
-- life, and of each that is in keys.listening. some: there are such tickets. If none is in keys.listening it removes
-- that from keys.
function matching.wanted(keys, matches, ids, texts)
  local listens, wants, any = batch.replies('SMISMEMBER', keys.listening, ids), {}, nil
  for _, match in ipairs(matches) do
    for i = match.first, match.last do
      any = listens[i] == 1 and keys.listening or any
      wants[i] = listens[i] == 1 or texts[match.texts + 4 * i + 2] ~= ''
      wants.some = wants.some or wants[i]
    end
  end
  keys.listening = any
  return wants
end

-- decide returns an outcome for each match, without what assigning it returns, and how many there are of each status.
-- barred: none can be assigned now.
function matching.decide(matches, ids, texts, barred, reason)
  local marks, taken, outcomes = matching.marked(matches), {}, {}
  local counts = {['OK'] = 0, ['EXISTS'] = 0, ['CONFLICT'] = 0, ['LEASE'] = 0}
  for at, match in ipairs(matches) do
    if string.sub(marks[match.key], 1, #match.mark) == match.mark then
      outcomes[at] = {'EXISTS'}
    elseif barred then
      outcomes[at] = {'LEASE'}
    else
      local against = matching.take(match, ids, texts, taken, reason)
      outcomes[at] = against and {'CONFLICT', against} or {'OK', {}, {}}
      marks[match.key] = against and marks[match.key] or match.mark
    end
    counts[outcomes[at][1]] = counts[outcomes[at][1]] + 1
  end
  return outcomes, counts
end
