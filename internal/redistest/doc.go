// Package redistest gives tests a real Redis: a standalone server, a Cluster, a Sentinel set, or a Valkey.
//
// A test package hands its TestMain to Main:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
// Standalone, Cluster and Valkey return servers that all tests of the test binary share. They start on first
// use, and tests keep apart by a key prefix of their own (see Prefix); nobody flushes or stops them. A test
// that kills, pauses, fills or reconfigures its Redis starts a private one with Start, StartReplica,
// StartCluster or StartSentinel, which ends with the test.
//
// Servers are redis-server processes on loopback. Only the shared standalone server may be a container
// instead, see Standalone. No process outlives the test binary, even where that is killed.
//
// All functions and methods may be called by several goroutines at the same time, unless they say otherwise.
// Functions that take a testing.TB fail that test where something goes wrong, and so must be called from its
// goroutine.
package redistest
