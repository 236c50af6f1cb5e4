// Package overview has the state of a server, for operators: a [History] of its metrics, and the [Problems]
// that are there now. Both are in memory, and cost Redis nothing.
package overview
