// Package limits keeps one client from hurting the others. It counts the events of each principal and each address in
// memory, by token buckets, and for quotas, which apply across servers, in a store.
//
// A [Client] is the client for which a request counts. It is in the request's context, and must be asked before each
// limited operation.
package limits
