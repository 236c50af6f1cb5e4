-- acl.lua checks the rights of Redis's user before a script's first write. A missing right would stop the script in the
-- middle, and what it had written would remain.

local acl = {}

-- require raises an error if the user may not run one of the commands on a key.
function acl.require(key, ...)
  for _, command in ipairs({...}) do
    if not redis.acl_check_cmd(command, key) then
      error({err = 'NOPERM the user needs ' .. command .. ' on ' .. key})
    end
  end
end

-- require_publish raises an error if the user may not publish to a topic.
function acl.require_publish(topic)
  if not redis.acl_check_cmd('SPUBLISH', topic, '') then
    error({err = 'NOPERM the user needs SPUBLISH to ' .. topic})
  end
end
