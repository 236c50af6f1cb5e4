// Package load generates load for benchmarks, for the tests under faults, and for tests of the server. Its clients cost
// as little as they can, so that they don't take the cores from the server that they load:
//
//   - [Repeat] sends requests over HTTP/1.1, and [Conn] is one connection.
//   - [Players] create tickets at any frontend of Open Match, and [Frontend] is one connection.
//   - [Flood] sends what no well-behaved client of HTTP/2 sends.
package load
