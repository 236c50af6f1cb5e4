-- index.lua is what the scripts of indexes of cached values share.

-- define: MARK_US
-- How long an invalidation is remembered: for longer than a value can be loaded.
local MARK_US = 120000000
