package commands

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// Bounds of a recording.
const (
	maxTickets   = 1_000_000
	maxLineBytes = 32 << 20 // a message of QueryService has up to 1 MiB as protobuf
)

// recording is recorded tickets, the oldest first.
type recording []*matchmaking.Ticket

// recorded is a line of a recording.
type recorded struct {
	ID         string    `json:"id"`
	CreateTime time.Time `json:"createTime"`
	TTL        string    `json:"ttl"`    // of the body that creates a ticket
	LifeMillis int64     `json:"lifeMs"` // of a ticket that was read
	matchmaking.Spec
	Result *struct {
		Tickets []json.RawMessage `json:"tickets"`
	} `json:"result"` // of a line of QueryService's answer
	Error json.RawMessage `json:"error"` // too
}

// readTickets reads tickets, the oldest first: lines of JSON, each a ticket as it is read, or the body that creates one
// with a createTime besides, or a line of the answer to POST /v1/queryservice/tickets:query. A ticket is counted once,
// however often it was recorded. Its Life is its own, or 0.
func readTickets(r io.Reader) (recording, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLineBytes)
	var all []*matchmaking.Ticket
	n := 0
	for lines.Scan() {
		n++
		line := lines.Bytes()
		if n == 1 {
			line = cli.TrimBOM(line)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		some, err := parseLine(line, fmt.Sprintf("line-%d", n))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if all = append(all, some...); len(all) > maxTickets {
			return nil, fmt.Errorf("there are more than %d tickets", maxTickets)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	slices.SortStableFunc(all, matchmaking.CompareAge)
	return slices.CompactFunc(all, func(a, b *matchmaking.Ticket) bool { return matchmaking.CompareAge(a, b) == 0 }),
		nil
}

// parseLine returns the tickets of a line. One without an ID gets a name.
func parseLine(line []byte, name string) ([]*matchmaking.Ticket, error) {
	var in recorded
	if err := json.Unmarshal(line, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Error != nil:
		return nil, fmt.Errorf("the recording failed: %.200s", in.Error)
	case in.Result != nil:
		tickets := make([]*matchmaking.Ticket, len(in.Result.Tickets))
		for i, text := range in.Result.Tickets {
			var err error
			if tickets[i], err = parseOpenMatch(text); err != nil {
				return nil, err
			}
		}
		return tickets, nil
	case in.CreateTime.IsZero():
		return nil, errors.New("the ticket has no createTime")
	}
	t := &matchmaking.Ticket{ID: in.ID, CreateTime: in.CreateTime,
		Life: time.Duration(in.LifeMillis) * time.Millisecond, Spec: in.Spec}
	t.KeepOnly(matchmaking.FieldsSearch)
	if t.ID == "" {
		t.ID = name
	}
	if in.TTL != "" {
		ttl, err := time.ParseDuration(in.TTL)
		if err != nil {
			return nil, fmt.Errorf("ttl: %w", err)
		}
		t.Life = ttl
	}
	return []*matchmaking.Ticket{t}, nil
}

func parseOpenMatch(text []byte) (*matchmaking.Ticket, error) {
	var message openmatch.Ticket
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, &message); err != nil {
		return nil, err
	}
	spec, err := convert.ToSpec(&message)
	switch {
	case err != nil:
		return nil, fmt.Errorf("ticket %s: %w", message.GetId(), err)
	case message.GetCreateTime() == nil:
		return nil, fmt.Errorf("ticket %s has no create_time", message.GetId())
	}
	t := &matchmaking.Ticket{ID: message.GetId(), CreateTime: message.GetCreateTime().AsTime(),
		Life: convert.TTLOf(&message), Spec: spec}
	t.KeepOnly(matchmaking.FieldsSearch)
	return t, nil
}
