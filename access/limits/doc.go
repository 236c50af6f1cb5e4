// Package limits keeps one client from hurting the others. It counts what each principal and each address does, in
// memory, by token buckets, and, for quotas that hold across servers, in a store.
//
// A [Client] is whom a request counts for. It travels in the request's context, and whoever does something that is
// limited asks it first.
package limits
