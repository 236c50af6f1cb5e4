package shard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// UnansweredError is the error of a Get that has no answer for some keys.
type UnansweredError[K any] struct {
	Keys  []K         // without an answer
	Hosts []HostError // of each host that was asked for some of them; one for each set of keys that it was asked for
	Asked int         // how many keys the Get had
	Lost  int         // how many of Keys no host has
	Err   error       // that of the context, or ErrNotRunning; nil: all hosts had answered or failed
}

// HostError is the failure of a host to answer a Get.
type HostError struct {
	Host Host
	Keys int // that it was asked for
	Err  error
}

// errSilent is the error of a host that hadn't answered when the Get ended.
var errSilent = errors.New("no answer yet")

func (g *get[K, ID, V]) unanswered(parts []*part, lost []group, err error) *UnansweredError[K] {
	e := &UnansweredError[K]{Err: err, Asked: len(g.keys)}
	for _, p := range parts {
		e.Keys = append(e.Keys, g.keys[p.from:p.to]...)
		asked := len(e.Hosts)
		for i, h := range p.hosts[:p.asked] {
			e.Hosts = append(e.Hosts, HostError{Host: h.Host, Keys: p.to - p.from, Err: cmp.Or(p.said[i], errSilent)})
		}
		slices.SortFunc(e.Hosts[asked:],
			func(a, b HostError) int { return cmp.Compare(a.Host.Address, b.Host.Address) })
	}
	for _, l := range lost {
		e.Keys = append(e.Keys, g.keys[l.from:l.to]...)
		e.Lost += l.to - l.from
	}
	return e
}

// Bounds of an error's text.
const (
	maxNamed     = 24
	maxNameBytes = 64
	maxSaidBytes = 256
)

// Error names the first keys, and the errors of the first hosts.
func (e *UnansweredError[K]) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "shard: no answer for %d of %d keys", len(e.Keys), e.Asked)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	b.WriteString(": keys ")
	list(&b, e.Keys, ", ", func(k K) string { return shorten(fmt.Sprintf("%v", k), maxNameBytes) })
	if e.Lost > 0 {
		fmt.Fprintf(&b, "; no host has the shard of %d of them", e.Lost)
	}
	if len(e.Hosts) > 0 {
		b.WriteString("; ")
		list(&b, e.Hosts, "; ", func(h HostError) string {
			return fmt.Sprintf("%s: %s", h.Host, shorten(h.Err.Error(), maxSaidBytes))
		})
	}
	return b.String()
}

// Unwrap returns Err.
func (e *UnansweredError[K]) Unwrap() error { return e.Err }

func list[T any](b *strings.Builder, all []T, separator string, text func(T) string) {
	for i, value := range all {
		if i > 0 {
			b.WriteString(separator)
		}
		if i == maxNamed {
			fmt.Fprintf(b, "and %d more", len(all)-i)
			return
		}
		b.WriteString(text(value))
	}
}

func shorten(text string, to int) string {
	if len(text) <= to {
		return text
	}
	for to > 0 && !utf8.RuneStart(text[to]) {
		to--
	}
	return text[:to] + "..."
}
