-- outbox.lua adds assignments to the outbox, and removes them.

-- define: post
-- post adds the assignment of a ticket, and returns the entry.
local function post(outbox_key, id, match, epoch, content)
  return redis.call('XADD', outbox_key, '*', 'ticket', id, 'match', match, 'epoch', epoch, 'content', content)
end

-- define: remove
-- remove removes entries, which spaces separate.
local function remove(outbox_key, delivered)
  local entries = {}
  for entry in string.gmatch(delivered, '%S+') do
    entries[#entries + 1] = entry
  end
  if #entries > 0 then
    redis.call('XDEL', outbox_key, unpack(entries))
  end
end
