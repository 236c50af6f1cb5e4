// Package channels keeps channels in Redis: it implements channel.Store with one Lua script, and one round trip, for
// each operation. docs/redis/channels.md documents the keys and the scripts.
//
// Start from [New]. A publish is publish.go, which runs lua/channels/publish.lua: it appends the messages and publishes
// a notification of each on the channel's topic. Concurrent publishes to a channel share calls of it (group_commit.go).
// Listeners of the topic (listen.go) then wake waiters, which read with lua/channels/fetch.lua (fetch.go).
//
// All keys of a channel have its name as their hash tag, so that they are in one slot. While that slot is being moved,
// operations are tried again until the time limit, except reading a channel, which reads key by key instead.
//
// A fetch reads no more than 64 KiB with its script, since Redis copies a message into a script and out again. The rest
// of a large fetch is read with MGET, on a connection for large replies and within the budget for them
// (fetch_large.go).
//
// Errors are those that channel.Store documents. A [Store] may be used by many goroutines.
//
// Only the program uses it: nothing in it is promised to others.
package channels
