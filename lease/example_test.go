package lease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/lease"
)

// connect returns the Manager of an example. A program creates one and keeps it, with the store of
// storage/redis/leases.
func connect() *lease.Manager {
	leases, err := lease.NewManager(&memory{}, lease.Options{TTL: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	return leases
}

func Example() {
	ctx := context.Background()
	leases := connect()

	err := leases.Hold(ctx, "nightly-report", func(ctx context.Context, fence uint64) error {
		for part := range 3 {
			if err := ctx.Err(); err != nil { // the lease is lost, or the program ends
				return err
			}
			fmt.Println("writing part", part, "with a fence:", fence > 0)
		}
		return nil
	})
	if err != nil {
		fmt.Println("report:", err)
	}
	// Output:
	// writing part 0 with a fence: true
	// writing part 1 with a fence: true
	// writing part 2 with a fence: true
}

// A resource that two holders must not write to stores the highest fence that it has seen.
func ExampleManager_Hold_fence() {
	ctx := context.Background()
	leases := connect()
	var seen uint64
	write := func(text string, fence uint64) {
		if fence < seen {
			fmt.Println("refused:", text)
			return
		}
		seen = fence
		fmt.Println("written:", text)
	}

	var old uint64
	_ = leases.Hold(ctx, "ledger", func(_ context.Context, fence uint64) error {
		old = fence
		return nil
	})
	_ = leases.Hold(ctx, "ledger", func(_ context.Context, fence uint64) error {
		write("by the new holder", fence)
		return nil
	})
	write("by the old holder, which was paused", old)
	// Output:
	// written: by the new holder
	// refused: by the old holder, which was paused
}

func ExampleManager_TryHold() {
	ctx := context.Background()
	leases := connect()
	_ = leases.Hold(ctx, "import", func(ctx context.Context, _ uint64) error {
		err := leases.TryHold(ctx, "import", func(context.Context, uint64) error { return nil })
		fmt.Println(errors.Is(err, lease.ErrHeld))
		return nil
	})
	// Output:
	// true
}
