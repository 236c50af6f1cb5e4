// Package lease runs a function in one place at a time, across processes and machines.
//
// A lease is the exclusive ownership of a name for a limited time. A [Manager] holds the leases of a process and is the
// type to start from:
//
//	leases, err := lease.NewManager(store, lease.Options{TTL: 10 * time.Second})
//	...
//	err = leases.Hold(ctx, "nightly-report", func(ctx context.Context, fence uint64) error {
//		return report(ctx, fence)
//	})
//
// Hold waits for the lease, calls the function, renews the lease while the function runs, and releases it when the
// function returns or panics. The context of the function is canceled with [ErrLost] as its cause before the store can
// grant the lease to another holder:
//
//	request sent                                      deadline       end in the store, at the earliest
//	     │                                               │               │
//	     ├───────────────── TTL − Margin ───────────────►│◄── Margin ───►│
//	     │        the function may run                   │ canceled      │ another holder may run
//
// The deadline is counted from before the request was sent, by the monotonic clock of the process, so that the time
// that a request takes makes it earlier and never later. A renewal moves it.
//
// # Fences
//
// A process that is stopped between a check of its context and a write, for longer than the lease lasts, writes when
// another holder runs. No lease prevents that. A resource that must be safe against it checks the fence: a number
// that is higher for each new holder of a name. The resource stores the highest fence that it has seen, and refuses
// writes with a lower one.
//
// # Failures
//
//	what fails                          what follows
//	the function returns or panics      the lease is released, and a waiter gets it at once
//	the process of the holder dies      the lease ends TTL after the last renewal; then a waiter gets it
//	the process is paused               ctx.Err reports the loss when it resumes; writes are refused by their fence
//	the store can't be reached          renewals are repeated; at the deadline the context is canceled
//	the reply to a request is lost      the store repeats it, for the same token; the deadline counts from the first one
//	an acquired lease isn't used        because its reply came too late: it is released, or ends by itself
//	the store loses writes              it may grant the lease again; the next renewal is refused, and the context
//	                                    is canceled; until then the fence protects
//	the clock of the store is set       forward: a lease may end early, as above; backward: it ends later. Fences rise
//	the function ignores its context    another holder may run at the same time; the fence protects
//	the machine is suspended            as for a pause; a monotonic clock that stops meanwhile doesn't show it
//
// # Cost
//
// A Manager renews all its leases together: while the store answers it calls Renew at most twice in a renewal interval,
// however many leases there are. A goroutine does this while leases are held; there is none otherwise. Each lease has a
// timer in memory for its deadline. A call that waits for a lease costs the store one request when the lease is free,
// and one in the TTL of whoever holds it; calls of one Manager that wait for the same name wait for each other and cost
// the store nothing.
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package lease
