-- index.lua defines the constants of the indexes of cached values.

local index = {}

-- MARK_US is how long an invalidation is remembered: longer than loading a value can take.
index.MARK_US = 120000000
