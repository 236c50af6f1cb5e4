package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"

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
	var rounds []float64
	for range u.rounds {
		u.redis.empty()
		u.fillConsumed()
		rounds = append(rounds, u.redis.cpuSeconds(channelCount*consumeMessages/consumeMax, u.consume))
	}
	next := median(rounds)
	u.printf("\nOf the loop of a consumer, a `next` that acknowledges ten messages and fetches the next ten takes %.1f "+
		"µs of Redis's\nCPU time (goal ≤ %.0f µs, %s).\n", next*1e6, nextLimit*1e6, report.Verdict(next <= nextLimit))
}

func consumePath(channel int) string { return fmt.Sprintf("/v1/channels/consume-%d", channel) }

// fillConsumed subscribes to each channel and publishes to it.
func (u *system) fillConsumed() {
	u.repeat(channelCount, func(n int) []byte {
		return load.Request(http.MethodPut, consumePath(n-1)+"/subscribers/s", "")
	})
	batch := "[" + strings.TrimSuffix(strings.Repeat(`{"content":`+messageContent+`},`, 50), ",") + "]"
	u.repeat(channelCount*consumeMessages/50, func(n int) []byte {
		return load.Request(http.MethodPost, consumePath(n%channelCount)+"/messages", batch)
	})
}

// consume consumes all channels, each over one of the connections.
func (u *system) consume() {
	group, ctx := errgroup.WithContext(u.Context())
	for first := range load.Connections {
		group.Go(func() error {
			c, err := load.Dial(ctx, u.server.HTTP)
			if err != nil {
				return err
			}
			defer c.Close()
			for channel := first; channel < channelCount && err == nil; channel += load.Connections {
				err = consumeOne(c, consumePath(channel)+"/subscribers/s")
			}
			return err
		})
	}
	u.Must(group.Wait())
}

// consumeOne consumes a channel to its end.
func consumeOne(c *load.Conn, subscriber string) error {
	receipt := ""
	for remaining := consumeMessages; remaining > 0; {
		request := load.Request(http.MethodGet, fmt.Sprintf("%s/messages?max=%d", subscriber, consumeMax), "")
		if receipt != "" {
			body := fmt.Sprintf(`{"receiptHandle":%q,"max":%d}`, receipt, consumeMax)
			request = load.Request(http.MethodPost, subscriber+"/next", body)
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
			return fmt.Errorf("%s: %d messages are missing", subscriber, remaining)
		}
		remaining -= len(got.Messages)
		receipt = got.ReceiptHandle
	}
	return nil
}
