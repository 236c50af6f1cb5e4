// Package load generates load for benchmarks, for the tests under faults, and for tests of the server. Its clients use
// little CPU time, which is left to the server under load:
//
//   - [Repeat] sends requests over HTTP/1.1, and [Conn] is one connection.
//   - [Crowd] is many connections that receive messages, as server-sent events or over WebSockets.
//   - [Players] create tickets at any frontend of Open Match, and [Frontend] is one connection.
//   - [Director] fetches matches from any backend of Open Match and assigns them, and [Pairs] is a match function.
//   - [Flood] sends HTTP/2 frames that no well-behaved client sends.
package load
