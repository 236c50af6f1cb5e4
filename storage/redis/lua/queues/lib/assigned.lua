-- assigned.lua writes notifications for those who wait for assignments: for each ticket "<id> <created, µs> <size> <assignment
-- of so many bytes>", one after the other. A size of 0 says that the assignment was left out, -1 that the ticket was removed.

-- define: gone
-- uses: time.decimal
-- gone returns the notification of a ticket that was removed from its queue.
local function gone(id, created)
  return id .. ' ' .. decimal(created or 0) .. ' -1 '
end

-- define: told
-- told returns the notification of tickets that were assigned. It leaves the assignments out if it would have more bytes than
-- it may have.
local function told(ids, times, contents, most)
  local long, short, bytes = {}, {}, 0
  for i, id in ipairs(ids) do
    long[i] = id .. ' ' .. times[i] .. ' ' .. #contents[i] .. ' ' .. contents[i]
    short[i] = id .. ' ' .. times[i] .. ' 0 '
    bytes = bytes + #long[i]
  end
  return table.concat(bytes <= most and long or short)
end
