package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Info is the fields of a server's INFO.
type Info map[string]string

// ReadInfo reads sections of INFO, or all that are shown by default.
func ReadInfo(ctx context.Context, node rueidis.Client, sections ...string) (Info, error) {
	text, err := node.Do(ctx, node.B().Info().Section(sections...).Build()).ToString()
	if err != nil {
		return nil, err
	}
	return parseInfo(text), nil
}

func parseInfo(text string) Info {
	fields := Info{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// IsReplica reports whether the server is a replica.
func (i Info) IsReplica() bool { return i["role"] == "slave" }

// Number returns a field as a number; a missing one is 0.
func (i Info) Number(field string) int64 {
	n, _ := strconv.ParseInt(i[field], 10, 64)
	return n
}

// Node is a server.
type Node struct {
	Address string
	Client  rueidis.Client
	Info    Info
}

// Reachable returns the primaries that answer within a time limit for each, by address: a part of a Cluster may be
// down. A standalone server may be a replica. If there is none it returns an error.
func Reachable(ctx context.Context, client rueidis.Client, limit time.Duration) ([]Node, error) {
	var found []Node
	var failed error
	for address, node := range client.Nodes() {
		fields, err := readInfoWithin(ctx, node, limit)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("INFO of %s: %w", address, err))
			continue
		}
		if !fields.IsReplica() || client.Mode() == rueidis.ClientModeStandalone {
			found = append(found, Node{Address: address, Client: node, Info: fields})
		}
	}
	if len(found) == 0 {
		return nil, cmp.Or(failed, errors.New("no primary was found"))
	}
	slices.SortFunc(found, func(a, b Node) int { return cmp.Compare(a.Address, b.Address) })
	return found, nil
}

func readInfoWithin(ctx context.Context, node rueidis.Client, limit time.Duration) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ReadInfo(ctx, node)
}
