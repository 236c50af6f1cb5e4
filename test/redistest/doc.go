// Package redistest starts real Redis servers for tests: a standalone server, a Cluster, a Sentinel group, or a Valkey.
//
// A test package calls Main from its TestMain:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
// Standalone, Cluster and Valkey return servers that all tests of the test binary share. They start on first use. Each
// test uses a key prefix of its own (see Prefix) and must not flush or stop them. A test that kills, pauses, fills or
// reconfigures its Redis starts a private one with Start, StartReplica, StartCluster or StartSentinel. It is stopped
// when the test ends.
//
// Servers are processes on loopback; only the shared standalone server can be a container, see Standalone. No process
// outlives the test binary, even if that is killed.
//
// All functions and methods may be called by several goroutines at the same time, unless they say otherwise. A function
// with a testing.TB fails that test if something goes wrong, and so must be called from the test's goroutine.
package redistest
