package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// The load of a round.
const (
	consumeMessages = 500 // on each channel
	consumeMax      = 10  // messages of a next
)

// nextLimit is the CPU time that Redis may take for it, from the project's goals.
const nextLimit = 50e-6

// measureNext measures the loop of a consumer: next acknowledges ten messages and fetches the next ten.
func (u *system) measureNext() {
	path := func(i int) string { return subscriberPath(fmt.Sprintf("consume-%d", i), "s") }
	var rounds []float64
	for range u.rounds {
		u.redis.empty()
		u.subscribe(channelCount, path)
		u.repeat(channelCount*consumeMessages/50, func(n int) []byte {
			return load.Request(http.MethodPost, fmt.Sprintf("/v1/channels/consume-%d/messages", n%channelCount), batch(50))
		})
		rounds = append(rounds, perCall(channelCount*consumeMessages/consumeMax, u.redis.cpu, func() {
			u.each(channelCount, func(ctx context.Context, i int) error {
				return u.consume(ctx, path(i), consumeMessages, consumeMax, "0s")
			})
		}))
	}
	next := median(rounds, func(seconds float64) float64 { return seconds })
	u.printf("\nOf the loop of a consumer, a `next` that acknowledges ten messages and fetches the next ten takes %.1f "+
		"µs of Redis's\nCPU time (goal ≤ %.0f µs, %s).\n", next*1e6, nextLimit*1e6, report.Verdict(next <= nextLimit))
}

// fetched is an answer with messages.
type fetched struct {
	Messages      []json.RawMessage `json:"messages"`
	ReceiptHandle string            `json:"receiptHandle"`
}

// receipt fetches messages and returns their receipt.
func (u *system) receipt(path string) string {
	var got fetched
	u.Must(json.Unmarshal(u.request(http.MethodGet, path, "").Body, &got))
	return got.ReceiptHandle
}

// consume receives n messages of a subscriber, at most limit at a time. It acknowledges them with the next request, so
// not the last ones.
func (u *system) consume(ctx context.Context, subscriber string, n, limit int, wait string) error {
	c, err := load.Dial(ctx, u.server.HTTP)
	if err != nil {
		return err
	}
	defer c.Close()
	request := load.Request(http.MethodGet, fmt.Sprintf("%s/messages?max=%d&wait=%s", subscriber, limit, wait), "")
	for n > 0 {
		a, err := c.Do(request)
		if err != nil {
			return err
		}
		var got fetched
		if err := json.Unmarshal(a.Body, &got); err != nil {
			return err
		}
		if len(got.Messages) == 0 {
			return fmt.Errorf("%s: %d messages are missing", subscriber, n)
		}
		n -= len(got.Messages)
		request = load.Request(http.MethodPost, subscriber+"/next",
			fmt.Sprintf(`{"receiptHandle":%q,"max":%d,"wait":%q}`, got.ReceiptHandle, limit, wait))
	}
	return nil
}
