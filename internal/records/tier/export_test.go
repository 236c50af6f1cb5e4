package tier

// newAt returns a table with a clock.
var newAt = newTableAt
