package main

import (
	"context"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"time"

	"github.com/tidemark-dev/tidemark/shard"
)

// capitals describes the cache, for nodes and clients: capitals by country. The countries spread over the shards by
// their hash.
var capitals = shard.Description[string, string, string]{
	Cache:       "capitals",
	ShardingKey: shard.HashString,
	EntryID:     func(country string) string { return country },
	Keys:        shard.JSON[[]string](),
	Values:      shard.JSON[[]shard.Entry[string, string]](),
}

// file is the source of the cache: the name of a file with countries and capitals. Each node reads those of its shard.
type file string

// Run implements shard.Source. It reads the file again whenever that has changed.
func (f file) Run(ctx context.Context, in shard.Interval, serve func(shard.Reader[string, string, string])) error {
	var read time.Time
	for {
		info, err := os.Stat(string(f))
		if err != nil {
			return err
		}
		if changed := info.ModTime(); !changed.Equal(read) {
			found, err := f.load(in)
			if err != nil {
				return err
			}
			serve(reader(found))
			read = changed
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
	}
}

// load returns the capitals of an interval.
func (f file) load(in shard.Interval) (map[string]string, error) {
	opened, err := os.Open(string(f))
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	found := map[string]string{}
	for lines := csv.NewReader(opened); ; {
		line, err := lines.Read()
		switch {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, err
		case len(line) != 2:
			return nil, errors.New("a line doesn't have a country and a capital")
		}
		if in.Contains(capitals.ShardingKey(line[0])) {
			found[line[0]] = line[1]
		}
	}
}

// reader returns the values of keys from a map that isn't changed any more.
func reader(from map[string]string) shard.Reader[string, string, string] {
	return func(_ context.Context, countries []string) (entries []shard.Entry[string, string], _ error) {
		for _, c := range countries {
			if capital, ok := from[c]; ok {
				entries = append(entries, shard.Entry[string, string]{ID: c, Value: capital})
			}
		}
		return entries, nil
	}
}
