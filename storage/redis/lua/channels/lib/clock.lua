-- clock.lua is the arithmetic of positions. After MAX comes -MAX. Numbers this large must not be turned into
-- text by `..` or tostring: show() does it, by way of a 64-bit integer. Every result that a script acts on is exact: sums and differences
-- are formed so that what is added stays below 2^53.

-- define: MAX
local MAX = 9007199254740991

-- define: show
local function show(c)
  return string.format('%d', c)
end

-- define: add
-- uses: clock.MAX
-- add goes n steps forward, n from 0 to MAX.
local function add(c, n)
  if n <= MAX - c then
    return c + n
  end
  return -MAX + (n - (MAX - c) - 1)
end

-- define: sub
-- uses: clock.MAX
-- sub goes n steps back, n from 0 to MAX.
local function sub(c, n)
  if n <= c + MAX then
    return c - n
  end
  return MAX - (n - (c + MAX) - 1)
end

-- define: distance
-- uses: clock.MAX
-- distance counts the steps forward from one clock to another; exact up to 2^53.
local function distance(from, to)
  if to >= from then
    return to - from
  end
  return (to + MAX) + (MAX - from) + 1
end

-- define: between
-- between reports whether c is in (mark, last].
local function between(mark, c, last)
  if mark <= last then
    return mark < c and c <= last
  end
  return c > mark or c <= last
end

-- define: behind
-- uses: clock.MAX clock.distance
-- behind reports whether c is at or behind mark: fewer than half of all clocks lie from c to mark.
local function behind(c, mark)
  return distance(c, mark) <= MAX
end
