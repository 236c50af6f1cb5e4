package channels

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
)

// How much a fetch from many channels may cost, from the project's goals.
const (
	manySources = 64
	manyLimit   = 3 // times a fetch from one
)

// manyFetch is one way to fetch. All have the same subscribers.
type manyFetch struct {
	name    string
	sources int // 0: the fetch of one channel's own route
	next    load.Maker
	cost    []manyCost // of each round
}

type manyCost struct{ server, redis, commands float64 }

// Many measures fetches from many channels with one call against those from one: where there is nothing, and the loop of a consumer
// who acknowledges a message and gets the next one, of one of the channels.
func Many(ctx context.Context, s target.Settings, r *report.Report) error {
	u, err := target.Start(ctx, s.Binary, "--matchmaking", "off")
	if err != nil {
		return err
	}
	defer u.Stop()
	subscribe := func(n int) []byte { return load.Request(http.MethodPut, manyPath(n-1), "") }
	if _, err := load.Repeat(ctx, u.Server.HTTP, 256, subscribe); err != nil {
		return err
	}
	nothing := []*manyFetch{{name: "of the channel's own route"}, {sources: 1}, {sources: manySources}, {sources: 256}}
	for _, f := range nothing {
		f.next = func(int) []byte { return load.Request(http.MethodPost, "/v1/fetch", manyBody(f.sources, "")) }
		if f.sources == 0 {
			f.next = func(n int) []byte { return load.Request(http.MethodGet, manyPath(n%256)+"/messages", "") }
		}
	}
	r.Printf("\n## Fetching from many channels\n\nCPU time of the server and of Redis per fetch, and commands that Redis was sent besides those in scripts.\n\n" +
		"| fetch | channels | server | Redis | together | of one channel | goal | commands | |\n|---|---:|---:|---:|---:|---:|---:|---:|---|\n")
	if err := measureMany(ctx, s, u, nothing); err != nil {
		return err
	}
	reportMany(r, "nothing is there", nothing, manySources)
	last, err := fillOne(ctx, u)
	if err != nil {
		return err
	}
	loop := []*manyFetch{{name: "of the channel's own route"}, {sources: 1}, {sources: manySources}, {sources: 256}}
	for _, f := range loop {
		f.next = func(int) []byte { return load.Request(http.MethodPost, "/v1/fetch", manyBody(f.sources, last)) }
		if f.sources == 0 {
			f.next = func(int) []byte {
				return load.Request(http.MethodPost, manyPath(0)+"/next", `{"max":1,"receiptHandle":"`+last+`"}`)
			}
		}
	}
	if err := measureMany(ctx, s, u, loop); err != nil {
		return err
	}
	reportMany(r, "acknowledges a message and gets one", loop, 0)
	return nil
}

func manyPath(n int) string {
	return fmt.Sprintf("/v1/channels/bench:topic:%d/subscribers/ann", n)
}

// manyBody returns the body of a fetch from the first channels, which acknowledges on the first one.
func manyBody(sources int, receipt string) string {
	var b strings.Builder
	b.WriteString(`{"max":1,"from":[`)
	for i := range sources {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"channel":"bench:topic:%d","subscriber":"ann"`, i)
		if i == 0 && receipt != "" {
			fmt.Fprintf(&b, `,"receiptHandle":%q`, receipt)
		}
		b.WriteString("}")
	}
	b.WriteString("]}")
	return b.String()
}

// fillOne publishes two messages to the first channel, and returns the receipt of the first. To the server a repeated
// acknowledgement is as much work as the first.
func fillOne(ctx context.Context, u *target.Target) (receipt string, err error) {
	publish := load.Request(http.MethodPost, "/v1/channels/bench:topic:0/messages", `[{"content":`+content+`},{"content":`+content+`}]`)
	if _, err := load.Once(ctx, u.Server.HTTP, publish); err != nil {
		return "", err
	}
	a, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodGet, manyPath(0)+"/messages?max=1", ""))
	if err != nil {
		return "", err
	}
	var got struct {
		ReceiptHandle string `json:"receiptHandle"`
	}
	err = json.Unmarshal(a.Body, &got)
	return got.ReceiptHandle, err
}

// measureMany takes the fetches in turns.
func measureMany(ctx context.Context, s target.Settings, u *target.Target, fetches []*manyFetch) error {
	for range s.Rounds {
		for _, f := range fetches {
			redisBefore, err := u.Redis.CPU(ctx)
			if err != nil {
				return err
			}
			commandsBefore, err := u.Redis.Info(ctx, "stats", "total_commands_processed")
			if err != nil {
				return err
			}
			server, _, err := u.MeasureServer(ctx, s.Requests, f.next)
			if err != nil {
				return err
			}
			redisAfter, err := u.Redis.CPU(ctx)
			if err != nil {
				return err
			}
			commandsAfter, err := u.Redis.Info(ctx, "stats", "total_commands_processed")
			if err != nil {
				return err
			}
			n := float64(s.Requests)
			f.cost = append(f.cost, manyCost{server: server, redis: (redisAfter - redisBefore) / n, commands: (commandsAfter - commandsBefore) / n})
		}
	}
	return nil
}

// reportMany writes a row for each fetch. The first is a fetch from one channel, to which the others are compared. The one of so
// many sources has a goal; none has, if that is 0.
func reportMany(r *report.Report, name string, fetches []*manyFetch, withGoal int) {
	for _, f := range fetches {
		var server, redis, commands, ratios []float64
		for round, c := range f.cost {
			one := fetches[0].cost[round]
			server, redis, commands = append(server, c.server), append(redis, c.redis), append(commands, c.commands)
			ratios = append(ratios, (c.server+c.redis)/(one.server+one.redis))
		}
		ratio, goal, verdict, n := report.Median(ratios), "", "", f.sources
		if withGoal > 0 && f.sources == withGoal {
			goal, verdict = fmt.Sprintf("≤ %d", manyLimit), report.Verdict(ratio <= manyLimit)
		}
		what := name
		if f.sources == 0 {
			what, n = name+", "+f.name, 1
		}
		ours, theirs := report.Median(server)*1e6, report.Median(redis)*1e6
		r.Printf("| %s | %d | %.1f µs | %.1f µs | %.1f µs | %.2f | %s | %.1f | %s |\n", what, n, ours, theirs, ours+theirs, ratio, goal, report.Median(commands), verdict)
	}
}
