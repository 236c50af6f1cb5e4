package channels

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
)

// How much is consumed in a round.
const (
	consumeMessages = 500 // on each channel
	consumeMax      = 10  // messages of a next
)

// What Redis may take for it, from the project's goals.
const nextLimit = 50e-6

// measureNext measures the loop of a consumer: next acknowledges ten messages and fetches the next ten.
func measureNext(ctx context.Context, s target.Settings, u *target.Target, r *report.Report) error {
	var rounds []float64
	for range s.Rounds {
		if err := u.Redis.Empty(ctx); err != nil {
			return err
		}
		if err := fill(ctx, u); err != nil {
			return err
		}
		before, err := u.Redis.CPU(ctx)
		if err != nil {
			return err
		}
		if err := consume(ctx, u); err != nil {
			return err
		}
		after, err := u.Redis.CPU(ctx)
		if err != nil {
			return err
		}
		rounds = append(rounds, (after-before)/(channels*consumeMessages/consumeMax))
	}
	next := report.Median(rounds)
	r.Printf("\nOf the loop of a consumer, a `next` that acknowledges ten messages and fetches the next ten takes %.1f µs of Redis's\n"+
		"CPU time (goal ≤ %.0f µs, %s).\n", next*1e6, nextLimit*1e6, report.Verdict(next <= nextLimit))
	return nil
}

func consumePath(channel int) string { return fmt.Sprintf("/v1/channels/consume-%d", channel) }

// fill subscribes to each channel and publishes to it.
func fill(ctx context.Context, u *target.Target) error {
	subscribe := func(n int) []byte { return load.Request(http.MethodPut, consumePath(n-1)+"/subscribers/s", "") }
	if _, err := load.Repeat(ctx, u.Server.HTTP, channels, subscribe); err != nil {
		return err
	}
	batch := "[" + strings.TrimSuffix(strings.Repeat(`{"content":`+content+`},`, 50), ",") + "]"
	_, err := load.Repeat(ctx, u.Server.HTTP, channels*consumeMessages/50, func(n int) []byte {
		return load.Request(http.MethodPost, consumePath(n%channels)+"/messages", batch)
	})
	return err
}

// consume consumes all channels, each over one of the connections.
func consume(ctx context.Context, u *target.Target) error {
	group, ctx := errgroup.WithContext(ctx)
	for first := range load.Connections {
		group.Go(func() error {
			c, err := load.Dial(ctx, u.Server.HTTP)
			if err != nil {
				return err
			}
			defer c.Close()
			for channel := first; channel < channels; channel += load.Connections {
				if err := consumeOne(c, consumePath(channel)+"/subscribers/s"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// consumeOne consumes a channel to its end.
func consumeOne(c *load.Conn, subscriber string) error {
	receipt := ""
	for left := consumeMessages; left > 0; {
		request := load.Request(http.MethodGet, fmt.Sprintf("%s/messages?max=%d", subscriber, consumeMax), "")
		if receipt != "" {
			request = load.Request(http.MethodPost, subscriber+"/next", fmt.Sprintf(`{"receiptHandle":%q,"max":%d}`, receipt, consumeMax))
		}
		a, err := c.Do(request)
		if err != nil {
			return err
		}
		var got struct {
			Messages      []json.RawMessage `json:"messages"`
			ReceiptHandle string            `json:"receiptHandle"`
		}
		if err := json.Unmarshal(a.Body, &got); err != nil {
			return err
		}
		if len(got.Messages) == 0 {
			return fmt.Errorf("%s: %d messages are missing", subscriber, left)
		}
		left -= len(got.Messages)
		receipt = got.ReceiptHandle
	}
	return nil
}
