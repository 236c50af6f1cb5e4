-- assigned.lua writes notifications for those who wait for assignments: for each ticket "<id> <created, µs> <size> <assignment
-- of so many bytes>", one after the other. A size of 0 says that the assignment was left out, -1 that the ticket was removed.

-- define: gone
-- uses: time.decimal
-- gone returns the notification of a ticket that was removed from its queue.
local function gone(id, created)
  return id .. ' ' .. decimal(created or 0) .. ' -1 '
end
