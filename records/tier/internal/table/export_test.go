package table

// NewAt returns a table with a clock.
var NewAt = newAt
