// Package lua holds every script that Tidemark runs in Redis, and makes them ready to run.
//
// # Files
//
// Each domain has a folder. A .lua file in it is one script, a file in shared or in the lib folder of a domain is a table
// of functions and constants:
//
//	channels/publish.lua      the script "channels/publish"
//	channels/lib/clocks.lua   the table clocks, for the scripts of channels
//	shared/time.lua           the table time, for the scripts of all domains
//
// A store declares the scripts that it runs as variables, and calls their methods:
//
//	var publishScript = lua.Must("channels/publish")
//
// A script begins with a comment that says what it does, its KEYS and ARGV, what it returns, and whether it is safe to
// run twice.
//
// # Tables
//
// A script uses the members of tables by their full names, and needs no declaration for that:
//
//	local at = clocks.show(clocks.add(mark, 1))
//
// A table's file begins with `local clocks = {}`. Each line that starts with `function clocks.` or `clocks.NAME = ` begins a
// member. Members are used only by their full names: a table is never passed on, and nothing is added to it later.
//
// The text that Redis gets has the members that the script uses, each once and after those that it uses itself, and then
// the script, without comments. There each member is a local variable: clocks.add is clocks__add. Redis runs all of the
// text at each call, so a script contains no more than it uses, and building tables would make a short script 5 % slower.
//
// # Running
//
// All scripts are safe to run twice. A [Script] can be used by several goroutines at the same time. It returns what
// Redis or the client returns, replies and errors alike: retries and the meaning of replies are up to the stores.
package lua
