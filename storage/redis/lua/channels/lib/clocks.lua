-- clocks.lua computes with clocks. The clock after MAX is -MAX. Numbers this large must not be converted to text by
-- `..` or tostring, which use an exponent: clocks.show converts them by way of a 64-bit integer. All results are exact:
-- no intermediate sum or difference reaches 2^53.

local clocks = {}

clocks.MAX = 9007199254740991

-- show returns a clock, or another whole number, as decimal text.
function clocks.show(c)
  return string.format('%d', c)
end

-- parse returns the clock of a decimal text, as show returns it, or nil.
function clocks.parse(text)
  local c = tonumber(text)
  return c and c >= -clocks.MAX and c <= clocks.MAX and clocks.show(c) == text and c or nil
end

-- add returns the clock n steps after c, n from 0 to MAX.
function clocks.add(c, n)
  if n <= clocks.MAX - c then
    return c + n
  end
  return -clocks.MAX + (n - (clocks.MAX - c) - 1)
end

-- sub returns the clock n steps before c, n from 0 to MAX.
function clocks.sub(c, n)
  if n <= c + clocks.MAX then
    return c - n
  end
  return clocks.MAX - (n - (c + clocks.MAX) - 1)
end

-- distance returns the number of steps forward from one clock to another. It is exact up to 2^53.
function clocks.distance(from, to)
  if to >= from then
    return to - from
  end
  return (to + clocks.MAX) + (clocks.MAX - from) + 1
end

-- between reports whether c is in (mark, last].
function clocks.between(mark, c, last)
  if mark <= last then
    return mark < c and c <= last
  end
  return c > mark or c <= last
end

-- behind reports whether c is at or behind mark: fewer than half of all clocks lie from c to mark.
function clocks.behind(c, mark)
  return clocks.distance(c, mark) <= clocks.MAX
end
