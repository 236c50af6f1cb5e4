-- append.lua writes messages into a channel whose clock was moved for them already.

-- may_append tells whether Redis's user may run the commands that come late in append.
local function may_append(key, keeps, topic)
  return redis.acl_check_cmd('SPUBLISH', topic, '') and (keeps == 0 or redis.acl_check_cmd('DEL', key))
end

-- append takes {at, record, head} of each message, where they go, and whom to tell. What the channel doesn't keep
-- any more goes with each.
local function append(messages, log, news)
  local tail = ',"at":' .. show(log.now) .. '}'
  for _, m in ipairs(messages) do
    local at, message = show(m.at), m.head .. tail
    redis.call('SET', log.prefix .. at, message, 'PXAT', log.ends)
    redis.call('SET', m.record, at, 'PXAT', log.ends)
    if log.keeps > 0 then
      redis.call('DEL', log.prefix .. show(sub(m.at, log.keeps)))
    end
    local text = news.epoch .. ' ' .. at
    if #message <= news.bytes then
      text = text .. ' ' .. message
    end
    redis.call('SPUBLISH', news.topic, text)
  end
end
