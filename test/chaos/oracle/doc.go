// Package oracle compares the responses that the clients of a service received with its promises.
//
// Clients report every response: publishes, deliveries and acknowledgements to [Messages], those of producers to
// [Producers], tickets and assignments to [Tickets], and each try of a request to [Requests]. At the end, Verdict counts
// all violations. The oracle never calls the service.
//
// All types are safe for concurrent use.
package oracle
