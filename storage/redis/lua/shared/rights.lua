-- rights.lua asks what Redis's user may do. What it may not do stops a script in its middle, and what was written
-- before that stays.

-- define: demand
-- demand ends a script that has written nothing yet if its user may not run one of the commands on a key.
local function demand(key, ...)
  for _, command in ipairs({...}) do
    if not redis.acl_check_cmd(command, key) then
      error({err = 'NOPERM the user needs ' .. command .. ' on ' .. key})
    end
  end
end

-- define: demand_topic
-- demand_topic ends a script that has written nothing yet if its user may not publish to a topic.
local function demand_topic(topic)
  if not redis.acl_check_cmd('SPUBLISH', topic, '') then
    error({err = 'NOPERM the user needs SPUBLISH to ' .. topic})
  end
end
