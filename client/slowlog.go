package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// SlowLogs are the slow logs of each Redis that a server uses: that of the channels is the first.
type SlowLogs struct {
	Redis []RedisSlowLogs `json:"redis"`
}

// RedisSlowLogs are the slow logs of the primaries of a Redis.
type RedisSlowLogs struct {
	Of    string    `json:"of"`              // its contents: channels, tickets, sessions or cache
	Error string    `json:"error,omitempty"` // why no primary could be read
	Logs  []SlowLog `json:"logs"`
}

// SlowLog is the slow log of a primary.
type SlowLog struct {
	Address string     `json:"address"`
	Calls   []SlowCall `json:"calls"`            // the latest first
	Error   string     `json:"error,omitempty"`  // why it couldn't be read
	Remedy  string     `json:"remedy,omitempty"` // what to change so that it can be read
}

// SlowCall is a command that took a primary longer than its slowlog-log-slower-than, without contents.
type SlowCall struct {
	At      time.Time `json:"at"`         // when it ran, in seconds, by the clock of Redis
	Micros  int64     `json:"durationUs"` // how long it took
	Command string    `json:"command"`
	Script  string    `json:"script,omitempty"` // of the service that it runs, such as channels/publish
	Keys    []string  `json:"keys"`             // of the service that it names, 8 at most
	// Client is the address and the name of the connection; empty: a script made the call.
	Client string `json:"client"`
}

// SlowLogs returns the latest calls in the slow log of each primary, up to limit for each; 0: 20. The call is answered
// on the service's admin address only.
func (c *Client) SlowLogs(ctx context.Context, limit int) (logs SlowLogs, err error) {
	r := request{what: "read the slow logs", method: http.MethodGet, path: []string{"slowlog"}}
	if limit != 0 {
		r.query = url.Values{"limit": {strconv.Itoa(limit)}}
	}
	_, err = c.call(ctx, r, &logs)
	return logs, err
}
