// Package oracle compares what the clients of a service received with what they are promised.
//
// Clients report every response: publishes, deliveries and acknowledgements to [Messages], tickets and assignments to
// [Tickets], and each try of a request to [Requests]. At the end, Judge returns a verdict, which counts everything that
// must not happen. The oracle never calls the service.
//
// All types are safe for concurrent use.
package oracle
