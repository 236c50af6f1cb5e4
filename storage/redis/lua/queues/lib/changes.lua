-- changes.lua appends to the changes of a queue, and notifies of them. While the queue has no director it notifies all
-- servers, without a text. Otherwise it notifies the director: "<first entry> <last entry>/<ticket's ID> ", and for each change
-- "<id> <expires, ms> <size> <ticket of so many bytes>", one after the other. A size of -1 says that the ticket was cancelled, -2 that
-- it was released. Without a text the changes must be read.

-- define: begin
-- uses: lease.parts rights.demand_topic
-- begin returns what append and tell need. lease is what the key of the director's lease holds, topics are the queue's and its
-- director's.
local function begin(now_ms, changes_key, lease, topics)
  local _, until_ms = parts(lease)
  local directed = until_ms > now_ms
  local topic = topics[directed and 2 or 1]
  demand_topic(topic)
  return {key = changes_key, topic = topic, directed = directed, whole = directed, texts = {}, bytes = 0}
end

-- define: append
-- append appends a change of a ticket. text is what the notification has of it after the ID; nil: it must be read. A director
-- trims what it has. Without one the stream has a limit.
local function append(news, id, fields, text)
  local entry
  if news.directed then
    entry = redis.call('XADD', news.key, '*', 'id', id, unpack(fields))
  else
    entry = redis.call('XADD', news.key, 'MAXLEN', '~', 100000, '*', 'id', id, unpack(fields))
  end
  news.first, news.last, news.whole = news.first or entry, entry .. '/' .. id, text and news.whole
  if news.whole then
    news.texts[#news.texts + 1] = id .. ' ' .. text
    news.bytes = news.bytes + #id + #text
  end
end

-- define: tell
-- tell notifies of the changes that were appended. The texts of a notification have 64 KiB at most.
local function tell(news)
  local whole = news.whole and news.bytes <= 65536
  redis.call('SPUBLISH', news.topic, whole and news.first .. ' ' .. news.last .. ' ' .. table.concat(news.texts) or '')
end
