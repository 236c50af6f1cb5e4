-- outbox.lua removes assignments from the outbox.

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
