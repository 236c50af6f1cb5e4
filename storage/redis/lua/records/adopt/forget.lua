#!lua flags=allow-oom
-- forget.lua removes the mark of a record whose key of Discours.io was removed, unless another run has taken over
-- something else since. It may run when Redis is out of memory.
--
-- KEYS[1] adopted  string  the mark: the text of what was taken over
--
-- ARGV[1] was  string  expected value of the mark
--
-- Returns {"OK"}, also if there is nothing, or something else.
-- Safe to run twice: yes, the second run finds nothing.
local adopted_key = KEYS[1]
local was = ARGV[1]

if redis.call('GET', adopted_key) == was then
  redis.call('DEL', adopted_key)
end
return {'OK'}
