-- index.lua is what the scripts of indexes of cached values share.

local index = {}

-- How long an invalidation is remembered: for longer than a value can be loaded.
index.MARK_US = 120000000
