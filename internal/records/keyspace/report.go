package keyspace

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/internal/records"
)

// Report is the result of a survey: the kinds that have keys, in the order of the documentation, the unknown ones last.
type Report struct {
	Kinds []Kind `json:"kinds"`
}

// Kind is the result of a survey for one kind.
type Kind struct {
	Name     string `json:"kind"`
	Keys     int64  `json:"keys"`
	Bytes    int64  `json:"bytes"`    // estimated from those that were measured
	Measured int64  `json:"measured"` // keys
	TTL      TTLs   `json:"ttl"`
	Largest  []Size `json:"largest,omitempty"` // of those measured, the largest first
	Problems Counts `json:"problems,omitzero"`

	kind    *records.Kind // nil: unknown
	ignored bool
	found   int64 // in the walk so far
	bytes   int64 // of the measured keys
}

// TTLs counts keys by their remaining time to live.
type TTLs struct {
	Minute    int64 `json:"1m"` // up to a minute
	Hour      int64 `json:"1h"`
	Day       int64 `json:"1d"`
	Month     int64 `json:"30d"`
	Longer    int64 `json:"longer"`
	Permanent int64 `json:"permanent"`
}

// Size is the memory of one key.
type Size struct {
	Key   string `json:"key"` // shortened, and with secrets removed
	Bytes int64  `json:"bytes"`
}

// Counts is the number of keys of a kind with each problem.
type Counts struct {
	NoTTL   int64 `json:"noTTL,omitzero"`   // a temporary key never ends
	LongTTL int64 `json:"longTTL,omitzero"` // it expires later than its kind allows
	Type    int64 `json:"type,omitzero"`    // it has another type
	Unknown int64 `json:"unknown,omitzero"` // the kind itself isn't known
}

// add counts a key.
func (k *Kind) add(key Key, largest int) {
	k.Keys++
	k.TTL.add(key.TTL)
	if key.Bytes > 0 {
		k.Measured++
		k.bytes += key.Bytes
		k.keep(key, largest)
	}
	switch {
	case k.kind == nil:
		k.Problems.Unknown++
		return
	case k.kind.TTL > 0 && key.TTL < 0:
		k.Problems.NoTTL++
	case k.kind.TTL > 0 && key.TTL > k.kind.TTL:
		k.Problems.LongTTL++
	}
	if key.Type != k.kind.Type {
		k.Problems.Type++
	}
}

func (t *TTLs) add(ttl time.Duration) {
	const day = 24 * time.Hour
	switch {
	case ttl < 0:
		t.Permanent++
	case ttl <= time.Minute:
		t.Minute++
	case ttl <= time.Hour:
		t.Hour++
	case ttl <= day:
		t.Day++
	case ttl <= 30*day:
		t.Month++
	default:
		t.Longer++
	}
}

// keep keeps a key if it is one of the largest.
func (k *Kind) keep(key Key, largest int) {
	if largest == 0 || len(k.Largest) == largest && key.Bytes <= k.Largest[largest-1].Bytes {
		return
	}
	size := Size{Key: k.shown(key.Name), Bytes: key.Bytes}
	if slices.Contains(k.Largest, size) {
		return // a walk can see a key twice
	}
	at, _ := slices.BinarySearchFunc(k.Largest, size, func(a, b Size) int { return cmp.Compare(b.Bytes, a.Bytes) })
	k.Largest = slices.Insert(k.Largest, at, size)
	k.Largest = k.Largest[:min(len(k.Largest), largest)]
}

// maxShown limits the shown part of a key.
const maxShown = 120

// token matches JSON Web Tokens, which occur in keys of applications.
var token = regexp.MustCompile(`eyJ[\w-]*(\.[\w-]*)*`)

// Shown returns a key as it may be shown: without tokens, on one line, and not too long.
func Shown(name string) string { return shown(name, true) }

// hash matches what keys of the service have in place of a token.
var hash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// shown returns a key as it may be shown. An application that writes plain keys itself may have written a token into one
// of a kind of the service.
func (k *Kind) shown(name string) string {
	if k.kind == nil {
		return shown(name, true)
	}
	names := k.kind.Parts()
	last := len(names) - 1
	if parts, ok := k.kind.Parse(name); ok && last >= 0 && names[last] == "hash" && !hash.MatchString(parts[last]) {
		parts[last] = "<token>"
		name = k.kind.Key(parts...)
	}
	return shown(name, false)
}

func shown(name string, tokens bool) string {
	cut := ""
	if len(name) > maxShown {
		for end := maxShown; ; end-- {
			if end == 0 || utf8.RuneStart(name[end]) {
				name, cut = name[:end], "…"
				break
			}
		}
	}
	if tokens {
		name = token.ReplaceAllString(name, "<token>")
	}
	quoted := strconv.QuoteToGraphic(name)
	return quoted[1:len(quoted)-1] + cut
}

// report returns the kinds that have keys.
func (v *visitor) report() (r Report) {
	order := make(map[string]int)
	for _, k := range v.options.Table.All() {
		order[k.Name] = len(order)
	}
	order[records.Unknown] = len(order)
	for _, k := range v.kinds {
		if k.Keys == 0 {
			continue
		}
		if k.Measured > 0 {
			k.Bytes = int64(float64(k.bytes) / float64(k.Measured) * float64(k.Keys))
		}
		r.Kinds = append(r.Kinds, *k)
	}
	slices.SortFunc(r.Kinds, func(a, b Kind) int { return cmp.Compare(order[a.Name], order[b.Name]) })
	return r
}

// Texts describes the problems, each with the number of keys.
func (k *Kind) Texts() (texts []string) {
	for _, problem := range []struct {
		keys int64
		text string
	}{
		{k.Problems.NoTTL, "without a TTL, although the kind is temporary: something else has written them"},
		{k.Problems.LongTTL, "with a longer TTL than the kind allows"},
		{k.Problems.Type, "of another type than the kind's"},
		{k.Problems.Unknown, "of no kind: another application's, or of another version"},
	} {
		if problem.keys > 0 {
			texts = append(texts, fmt.Sprintf("%s: %d %s", k.Name, problem.keys, problem.text))
		}
	}
	return texts
}
