-- notice.lua formats notifications for players that wait for assignments. They have for each ticket "<id> <created, µs>
-- <size> <assignment, size bytes>". The size is 0 if the assignment is left out, -1 if the ticket was removed.

local notice = {}

-- removed returns the notification of a ticket that was removed from its queue.
function notice.removed(id, created)
  return id .. ' ' .. time.decimal(created or 0) .. ' -1 '
end

-- assigned returns the notification of assigned tickets, without the assignments if it would have more than max_bytes.
function notice.assigned(ids, times, contents, max_bytes)
  local long, short, bytes = {}, {}, 0
  for i, id in ipairs(ids) do
    long[i] = id .. ' ' .. times[i] .. ' ' .. #contents[i] .. ' ' .. contents[i]
    short[i] = id .. ' ' .. times[i] .. ' 0 '
    bytes = bytes + #long[i]
  end
  return table.concat(bytes <= max_bytes and long or short)
end
