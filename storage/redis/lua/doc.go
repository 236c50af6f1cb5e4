// Package lua holds every script that Tidemark runs in Redis, and makes them ready to run.
//
// # Files
//
// Each domain has a folder. A .lua file in it is one script:
//
//	channels/publish.lua      the script "channels/publish"
//	channels/lib/clock.lua    functions for the scripts of channels
//	shared/time.lua           functions for the scripts of all domains
//
// A store declares the scripts that it runs as variables, and calls their methods:
//
//	var publishScript = lua.Must("channels/publish")
//
// # Linking
//
// A script begins with a comment that says what it does, its KEYS and ARGV, what it returns, and whether it is safe to
// run twice. A line of that comment names the definitions that the script uses:
//
//	-- uses: clock.add clock.show life.begin
//
// Here clock.add is the definition "add" in the library file clock.lua. Library files are those in shared and in the
// lib folder of a domain; no two have the same name. They are divided into definitions. Each starts with a line that
// names it, and may name what it uses itself:
//
//	-- define: add
//	-- uses: clock.MAX
//	local function add(c, n)
//
// The text of a script as Redis gets it has each of these definitions once, after what it uses itself, and then the
// script. Comments are left out. Nothing else is added: Redis creates every function of a script again at each call,
// which takes longer than some commands, so a script names no more than it uses.
//
// # Running
//
// All scripts are safe to run twice. A [Script] can be used by several goroutines at the same time. It returns what
// Redis or the client returns, replies and errors alike: retries and the meaning of replies are up to the stores.
package lua
