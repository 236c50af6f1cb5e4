package matchmaking

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"
)

// The kinds of a definition's evaluator.
const (
	evaluatorDecollide = "decollide"
	evaluatorGRPC      = "grpc"
	evaluatorHTTP      = "http"
)

// MaxMatchTickets is how many tickets a match can have, whoever proposes it.
const MaxMatchTickets = 100

// Check returns the first thing that is wrong with a definition, apart from what its parts find. Errors: SlugInvalidQueue.
func (d Definition) Check() error {
	var c checker
	c.match(d.Match)
	c.profile(d.Profile)
	c.oneOf("evaluator.kind", d.Evaluator.Kind, evaluatorDecollide, evaluatorGRPC, evaluatorHTTP)
	c.called("evaluator", d.Evaluator.Kind, d.Evaluator.URL)
	c.atLeast("evaluator.timeout", d.Evaluator.Timeout, time.Millisecond)
	c.assigner(d.Assigner)
	c.atLeast("ticketTTL", d.TicketTTL, MinLifetime)
	c.atLeast("pendingTimeout", d.PendingTimeout, MinLifetime)
	c.atLeast("assignmentTTL", d.AssignmentTTL, MinLifetime)
	if d.Heartbeat != 0 {
		c.atLeast("heartbeat", d.Heartbeat, MinLifetime)
	}
	c.require(d.MaxTickets >= 0, "maxTickets", "%d is negative (0: no limit)", d.MaxTickets)
	c.require(d.MaxTicketBytes >= 1, "maxTicketBytes", "%d isn't positive", d.MaxTicketBytes)
	return c.err
}

// checker keeps the first thing that is wrong.
type checker struct{ err error }

func (c *checker) require(holds bool, path, format string, args ...any) {
	if !holds && c.err == nil {
		c.err = InvalidQueue(path, "%s: %s", path, fmt.Sprintf(format, args...))
	}
}

func (c *checker) oneOf(path, has string, allowed ...string) {
	c.require(slices.Contains(allowed, has), path, "%q is none of %q", has, allowed)
}

func (c *checker) atLeast(path string, has Duration, least time.Duration) {
	c.require(has.Std() >= least, path, "%s is shorter than %s", has, least)
	c.require(has.Std() <= maxLifetime, path, "%s is longer than %s", has, maxLifetime)
}

// maxLifetime bounds all durations of a definition.
const maxLifetime = 365 * 24 * time.Hour

func (c *checker) match(m Match) {
	c.oneOf("match.function", string(m.Function),
		string(MatchFirstCome), string(MatchCriteria), string(MatchHTTP), string(MatchGRPC))
	c.require(m.Teams >= 1, "match.teams", "%d isn't positive", m.Teams)
	c.require(m.TeamSize >= 1, "match.teamSize", "%d isn't positive", m.TeamSize)
	c.require(m.Teams <= MaxMatchTickets, "match.teams", "%d is more than %d", m.Teams, MaxMatchTickets)
	c.require(c.err != nil || m.TeamSize <= MaxMatchTickets/m.Teams, "match.teamSize",
		"%d teams of %d are more than %d tickets", m.Teams, m.TeamSize, MaxMatchTickets)
	c.oneOf("match.acceptance", string(m.Acceptance), string(AcceptMutual), string(AcceptOneSided))
	for _, name := range slices.Sorted(maps.Keys(m.Weights)) {
		path := below("match.weights", name)
		c.require(name != "", path, "the name is empty")
		c.require(m.Weights[name] >= 0, path, "%v is negative", m.Weights[name])
	}
	for i, w := range m.Widen {
		path := fmt.Sprintf("match.widen[%d]", i)
		c.atLeast(path+".after", w.After, time.Millisecond)
		c.require(len(w.By) > 0, path+".by", "names no criterion")
		for _, name := range slices.Sorted(maps.Keys(w.By)) {
			c.require(w.By[name] > 0, below(path+".by", name), "%v isn't positive", w.By[name])
		}
	}
	c.called("match", string(m.Function), m.URL)
	c.atLeast("match.timeout", m.Timeout, time.Millisecond)
	c.require(m.Debounce >= 0, "match.debounce", "%s is negative", m.Debounce)
	c.require(m.Debounce.Std() <= time.Minute, "match.debounce", "%s is longer than a minute", m.Debounce)
}

func (c *checker) profile(p Profile) {
	names := map[string]bool{}
	for i, pool := range p.Pools {
		path := fmt.Sprintf("profile.pools[%d]", i)
		c.require(!names[pool.Name], path+".name", "another pool is called %q, too", pool.Name)
		names[pool.Name] = true
		for j, f := range pool.DoubleRanges {
			at := fmt.Sprintf("%s.doubleRangeFilters[%d]", path, j)
			c.require(f.DoubleArg != "", at+".doubleArg", "is empty")
			c.require(f.Min <= f.Max, at+".min", "%v is more than max, %v", f.Min, f.Max)
			c.oneOf(at+".exclude", string(f.Exclude),
				"", string(ExcludeNone), string(ExcludeMin), string(ExcludeMax), string(ExcludeBoth))
		}
		for j, f := range pool.StringEquals {
			c.require(f.StringArg != "", fmt.Sprintf("%s.stringEqualsFilters[%d].stringArg", path, j), "is empty")
		}
		for j, f := range pool.TagsPresent {
			c.require(f.Tag != "", fmt.Sprintf("%s.tagPresentFilters[%d].tag", path, j), "is empty")
		}
	}
}

func (c *checker) assigner(a AssignBy) {
	c.oneOf("assigner.kind", string(a.Kind), string(AssignStatic), string(AssignWebhook), string(AssignAgones))
	if a.Kind != AssignStatic {
		c.url("assigner.url", a.URL)
	}
	c.require(a.Secret == "" || a.SecretFile == "", "assigner.secretFile", "there is a secret, too")
	c.atLeast("assigner.timeout", a.Timeout, time.Millisecond)
}

// called checks the URL of what is called out for, by its kind.
func (c *checker) called(path, kind, address string) {
	switch kind {
	case evaluatorHTTP:
		c.url(path+".url", address)
	case evaluatorGRPC:
		c.require(address != "", path+".url", "is empty")
	}
}

func (c *checker) url(path, address string) {
	c.require(address != "", path, "is empty")
	u, err := url.Parse(address)
	var parse *url.Error
	if errors.As(err, &parse) {
		err = parse.Err // without the URL, which may have a password in it
	}
	c.require(err == nil, path, "isn't a URL: %v", err)
	c.require(c.err != nil || (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", path, "isn't like http://host/path")
}
