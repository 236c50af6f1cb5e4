-- outbox.lua adds assignments to the outbox, and removes them.

local outbox = {}

-- add adds the assignment of a ticket, and returns the entry.
function outbox.add(outbox_key, id, match, epoch, content)
  return redis.call('XADD', outbox_key, '*', 'ticket', id, 'match', match, 'epoch', epoch, 'content', content)
end

-- remove removes entries, which spaces separate.
function outbox.remove(outbox_key, delivered)
  local entries = {}
  for entry in string.gmatch(delivered, '%S+') do
    entries[#entries + 1] = entry
  end
  if #entries > 0 then
    redis.call('XDEL', outbox_key, unpack(entries))
  end
end
