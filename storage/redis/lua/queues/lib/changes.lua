-- changes.lua appends to the changes of a queue and publishes notifications of them. While the queue has no director,
-- the notification goes to all servers and is empty. Otherwise it goes to the director: "<first entry> <last
-- entry>/<ticket's ID> ", and for each change "<id> <expires, ms> <size> <ticket, size bytes>". The size is -1 if the
-- ticket was cancelled, -2 if it was released. If the notification is empty, the director reads the changes.

local changes = {}

-- begin returns the state for append and notify. director is the value of the director's lease, topics has the topics
-- of the queue and of its director.
function changes.begin(now_ms, changes_key, director, topics)
  local _, until_ms = lease.parse(director)
  local directed = until_ms > now_ms
  local topic = topics[directed and 2 or 1]
  acl.require_publish(topic)
  return {key = changes_key, topic = topic, directed = directed, whole = directed, texts = {}, bytes = 0}
end

-- append appends a change of a ticket. text is its part of the notification after the ID, or nil if the director has to
-- read it. A director trims the stream; without a director its length is limited.
function changes.append(news, id, fields, text)
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

-- notify publishes a notification of the appended changes, which is empty if it would exceed 64 KiB.
function changes.notify(news)
  local whole = news.whole and news.bytes <= 65536
  redis.call('SPUBLISH', news.topic, whole and news.first .. ' ' .. news.last .. ' ' .. table.concat(news.texts) or '')
end
