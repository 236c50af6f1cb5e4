-- notify.lua tells those who listen of a new message.

local notify = {}

-- require_rights ends a script that has written nothing yet if Redis's user lacks a right of the last steps of a
-- publish. It would stop the script in its middle.
function notify.require_rights(topic, plain, prolonged_key, trimmed_key)
  if not redis.acl_check_cmd('SPUBLISH', topic, '') or plain and not redis.acl_check_cmd('PUBLISH', plain, '')
    or prolonged_key and not redis.acl_check_cmd('PEXPIREAT', prolonged_key)
    or trimmed_key and not redis.acl_check_cmd('DEL', trimmed_key) then
    local also = plain and ', and PUBLISH to ' .. plain or ''
    error({err = 'NOPERM the user needs DEL, PEXPIREAT, and SPUBLISH to ' .. topic .. also})
  end
end

-- send publishes a new message on the channel's topic, without its body if that is too large, and its content on a
-- plain channel, if there is one. An ID has no quotes, so that the content is what follows the first of its name.
function notify.send(topic, at, message, plain, head)
  redis.call('SPUBLISH', topic, message and at .. ' ' .. message or at)
  if plain then
    redis.call('PUBLISH', plain, string.match(head, '"content":(.*)$'))
  end
end
