// Package site reads the table of kinds of a site, which is data: its caches, the entities that users follow, the form
// of notifications, the operations of locks, and the names of statistics. Start from [Parse].
//
// The table of a community site, community.json, is the default. Tables of other sites have the same form.
package site

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/followers"
	"github.com/tidemark-dev/tidemark/internal/records/locks"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// Site is a table of kinds. It is immutable.
type Site struct {
	Table   *records.Table    // of kinds: those of the service and of cached values
	Sources followers.Sources // what users follow
	Schema  string            // name of the JSON Schema of notifications; "": they are any JSON

	Operations locks.Operations // that locks are for
	Statistics records.StatsNames
}

// Schemas opens a JSON Schema by its name in a table.
type Schemas func(name string) (channel.Schema, error)

//go:embed community.json
var communityTable []byte

// Community returns the table of a community site: always the same one.
var Community = sync.OnceValue(func() *Site {
	s, err := Parse(communityTable, nil)
	if err != nil {
		panic(err) // impossible: a test parses it
	}
	return s
})

// Kind returns the kind of cached values of a community site with a name. It panics if there is none.
func Kind(name string) *records.Kind {
	k, err := Community().Table.Cache(name)
	if err != nil {
		panic("site: " + name + " is no kind of a community site")
	}
	return k
}

// Plain returns the table with plain keys. The errors name the place, as those of Parse.
func (s *Site) Plain() (*Site, error) {
	plain := *s
	var err error
	if plain.Table, err = s.Table.Plain(); err != nil {
		return nil, inCaches(err)
	}
	plain.Sources = slices.Clone(s.Sources)
	for i := range plain.Sources {
		source := &plain.Sources[i]
		source.Follows, source.Followers = source.Follows.In(true), source.Followers.In(true)
	}
	return &plain, nil
}

// inCaches returns an error of a table of kinds with the place.
func inCaches(err error) error {
	var twice *records.DuplicateError
	if errors.As(err, &twice) {
		return fmt.Errorf("kinds.caches[%d].%w", twice.At, err)
	}
	return fmt.Errorf("kinds.%w", err)
}

// table is a table as it is written.
type table struct {
	Caches        []cached              `json:"caches"`
	Notifications notifications         `json:"notifications"`
	Locks         []operation           `json:"locks"`
	Statistics    []records.StatsEntity `json:"statistics"`
	Metrics       []string              `json:"metrics"`
}

// operation is an operation of locks, as it is written.
type operation struct {
	Name   string   `json:"name"`
	TTL    duration `json:"ttl"`
	MaxTTL duration `json:"maxTTL"`
}

// notifications are the channels of notifications as they are written.
type notifications struct {
	Schema string     `json:"schema"`
	Follow []followed `json:"follow"`
}

// followed is an entry of notifications.follow, as it is written.
type followed struct {
	Name      string `json:"name"`
	Follows   string `json:"follows"`
	Followers string `json:"followers"`
}

// cached is a kind of cached values as it is written.
type cached struct {
	Name        string   `json:"name"`
	Key         string   `json:"key"`
	Value       string   `json:"value"`
	Schema      string   `json:"schema"`
	IDs         string   `json:"ids"`
	TTL         duration `json:"ttl"`
	Prefixes    bool     `json:"prefixes"`
	Tags        []string `json:"tags"`
	MaxBytes    size     `json:"maxBytes"`
	Secret      bool     `json:"secret"`
	Shards      bool     `json:"shards"`
	Description string   `json:"description"`
}

// duration is a time.Duration as text, such as 5m.
type duration time.Duration

// UnmarshalText parses a duration that is longer than 0.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed <= 0 {
		return fmt.Errorf("%.64q isn't a duration, such as 30s, 5m or 24h", text)
	}
	*d = duration(parsed)
	return nil
}

// size is a number of bytes, with or without a unit.
type size int

var units = []struct {
	suffix string
	bytes  int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"", 1}}

// UnmarshalJSON parses a number, or text such as 64KiB.
func (s *size) UnmarshalJSON(text []byte) error {
	number := strings.Trim(string(text), `"`)
	for _, u := range units {
		digits, found := strings.CutSuffix(number, u.suffix)
		if n, err := strconv.ParseUint(digits, 10, 31); found && err == nil && n > 0 {
			*s = size(int(n) * u.bytes) // at most 2^51
			return nil
		}
	}
	return fmt.Errorf("%.64q isn't a number of bytes, such as 65536, 64KiB or 1MiB", number)
}

// Parse reads a table from JSON; its numbers and booleans may also be text, as in YAML. The errors name the place, as
// in `kinds.caches[0].key: …`.
func Parse(text []byte, open Schemas) (*Site, error) {
	var t table
	var wrong *strictjson.Error
	switch err := strictjson.Unmarshal(text, &t, strictjson.TextIsPlain); {
	case errors.As(err, &wrong) && wrong.Path != "":
		return nil, fmt.Errorf("kinds.%w", err)
	case err != nil:
		return nil, fmt.Errorf("kinds: not a table of kinds, such as {\"caches\": [{\"name\": \"product\", "+
			"\"key\": \"product:{<id>}\"}]}: %w", err)
	}
	caches, err := t.caches(open)
	if err != nil {
		return nil, err
	}
	sources, err := t.Notifications.sources(caches)
	if err != nil {
		return nil, fmt.Errorf("kinds.notifications.%w", err)
	}
	s := &Site{Table: caches, Sources: sources, Schema: t.Notifications.Schema, Operations: t.operations(),
		Statistics: records.StatsNames{Entities: t.Statistics, Metrics: t.Metrics}}
	if err := s.Operations.Check(); err != nil {
		return nil, fmt.Errorf("kinds.locks%w", err)
	}
	if err := s.Statistics.Check(); err != nil {
		return nil, fmt.Errorf("kinds.%w", err)
	}
	return s, nil
}

// operations returns the operations of locks; nil if the table has none.
func (t *table) operations() locks.Operations {
	if t.Locks == nil {
		return nil
	}
	all := make(locks.Operations, len(t.Locks))
	for i, o := range t.Locks {
		all[i] = locks.Operation{Name: o.Name, TTL: time.Duration(o.TTL), MaxTTL: time.Duration(o.MaxTTL)}
	}
	return all
}

// sources returns what users follow. Their lists are cached values.
func (n *notifications) sources(caches *records.Table) (followers.Sources, error) {
	all := make(followers.Sources, len(n.Follow))
	for i, f := range n.Follow {
		all[i].Name = f.Name
		for _, list := range []struct {
			field, name string
			kind        **records.Kind
		}{{"follows", f.Follows, &all[i].Follows}, {"followers", f.Followers, &all[i].Followers}} {
			kind, err := caches.Cache(list.name)
			if err != nil || kind.Values != "ids" {
				return nil, fmt.Errorf("follow[%d].%s: is %.80q, it must be one of caches whose value is ids", i,
					list.field, list.name)
			}
			*list.kind = kind
		}
		if err := all[:i+1].Check(); err != nil {
			return nil, fmt.Errorf("follow[%d].%w", i, err)
		}
	}
	return all, nil
}

// caches builds the kinds of cached values.
func (t *table) caches(open Schemas) (*records.Table, error) {
	if len(t.Caches) > records.MaxCaches {
		return nil, fmt.Errorf("kinds.caches: has %d kinds, at most %d are allowed", len(t.Caches), records.MaxCaches)
	}
	list := make([]*records.Kind, len(t.Caches))
	for i, c := range t.Caches {
		kind, err := c.kind(open)
		if err != nil {
			return nil, fmt.Errorf("kinds.caches[%d].%w", i, err)
		}
		list[i] = kind
	}
	kinds, err := records.NewTable(list...)
	if err != nil {
		return nil, inCaches(err)
	}
	return kinds, nil
}

func (c *cached) kind(open Schemas) (*records.Kind, error) {
	k := records.Kind{
		Name: c.Name, Pattern: c.Key, TTL: time.Duration(c.TTL), MaxBytes: int(c.MaxBytes), Secret: c.Secret,
		Cached: records.Cached{Values: c.Value, IDs: c.IDs, Prefixes: c.Prefixes, Tags: c.Tags, Shards: c.Shards,
			Description: c.Description},
	}
	if c.Schema != "" {
		var err error
		if k.Schema, err = open(c.Schema); err != nil {
			return nil, fmt.Errorf("schema: %w", err)
		}
	}
	return records.NewCache(k)
}
