package matchmaking

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"time"
)

// The kinds of a definition's evaluator.
const (
	evaluatorDecollide = "decollide"
	evaluatorGRPC      = "grpc"
	evaluatorHTTP      = "http"
)

// Limits of a match from any match function.
const (
	MaxMatchTickets = 100
	MaxMatchPlayers = 1000
)

// MaxParty is the largest number of players of a ticket in a queue without a known team size.
const MaxParty = 100

// Check returns the first error of a definition, except errors that only building its parts finds. Errors:
// fault.SlugInvalidQueue.
func (d Definition) Check() error {
	if faults := d.faults(); len(faults) > 0 {
		return faults[0]
	}
	return nil
}

// faults returns all errors of a definition that Check finds.
func (d Definition) faults() []error {
	var c checker
	c.oneOf("director", string(cmp.Or(d.Director, DirectorService)), string(DirectorService), string(DirectorUser))
	if d.ByUser() {
		c.byUser(&d)
	} else {
		c.byService(&d)
	}
	c.oneOf("evaluator.kind", d.Evaluator.Kind, evaluatorDecollide, evaluatorGRPC, evaluatorHTTP)
	c.called("evaluator", d.Evaluator.Kind, d.Evaluator.URL)
	c.atLeast("evaluator.timeout", d.Evaluator.Timeout, time.Millisecond)
	if !d.ByUser() || d.TicketTTL != Unlimited {
		c.atLeast("ticketTTL", d.TicketTTL, MinLifetime)
	}
	if d.TicketTTL != Unlimited || d.AssignmentTTL != Unlimited {
		c.atLeast("assignmentTTL", d.AssignmentTTL, MinLifetime)
	}
	c.atLeast("pendingTimeout", d.PendingTimeout, MinLifetime)
	c.oneOf("reveal", string(d.Reveal), string(RevealNone), string(RevealTeammates), string(RevealOpponents))
	c.require(d.MaxTickets >= 0, "maxTickets", "must be 0 (no limit) or more, not %d", d.MaxTickets)
	c.require(d.MaxTicketBytes >= 1, "maxTicketBytes", "must be positive, not %d", d.MaxTicketBytes)
	return c.all
}

// byUser checks the keys that depend on the director, in a queue that is directed by its user.
func (c *checker) byUser(d *Definition) {
	const none = "must be left out: the queue is directed by its user"
	c.require(reflect.ValueOf(d.Match).IsZero(), "match", none)
	c.require(d.Profile.Name == "" && d.Profile.Pools == nil, "profile", none)
	c.require(reflect.ValueOf(d.Assigner).IsZero(), "assigner", none)
	c.require(d.Heartbeat == 0, "heartbeat", none)
	c.atLeast("backfillTTL", d.BackfillTTL, MinLifetime/2)
	c.window("registrationInterval", d.RegistrationInterval)
	c.window("proposalCollectionInterval", d.ProposalCollectionInterval)
	c.require(d.MaxBackfills >= 1, "maxBackfills", "must be positive, not %d", d.MaxBackfills)
}

// byService checks the keys that depend on the director, in a queue that the service directs.
func (c *checker) byService(d *Definition) {
	c.match(d.Match)
	c.profile(d.Profile)
	c.assigner(d.Assigner)
	if d.Heartbeat != 0 {
		c.atLeast("heartbeat", d.Heartbeat, MinLifetime)
	}
	const none = "must be left out: it is for queues with director: user"
	c.require(d.BackfillTTL == 0, "backfillTTL", none)
	c.require(d.RegistrationInterval == 0, "registrationInterval", none)
	c.require(d.ProposalCollectionInterval == 0, "proposalCollectionInterval", none)
	c.require(d.MaxBackfills == 0, "maxBackfills", none)
}

// window checks an interval of the cycle of FetchMatches.
func (c *checker) window(path string, has Duration) {
	c.require(has >= 0, path, "must be 0 or more, not %s", has)
	c.require(has.Std() <= maxWindow, path, "must be at most %s, not %s", maxWindow, has)
}

// maxWindow bounds the intervals of a cycle.
const maxWindow = 10 * time.Minute

// checker collects errors.
type checker struct {
	err error // the first one
	all []error
}

func (c *checker) require(holds bool, path, format string, args ...any) {
	if !holds {
		err := InvalidQueue(path, "%s: %s", path, fmt.Sprintf(format, args...))
		c.err, c.all = cmp.Or(c.err, err), append(c.all, err)
	}
}

func (c *checker) oneOf(path, has string, allowed ...string) {
	c.require(slices.Contains(allowed, has), path, "must be one of %q, not %q", allowed, has)
}

func (c *checker) atLeast(path string, has Duration, least time.Duration) {
	c.require(has.Std() >= least, path, "must be at least %s, not %s", least, has)
	c.require(has.Std() <= maxLifetime, path, "must be at most %s, not %s", maxLifetime, has)
}

// maxLifetime bounds all durations of a definition.
const maxLifetime = 365 * 24 * time.Hour

func (c *checker) match(m Match) {
	c.oneOf("match.function", string(m.Function),
		string(MatchFirstCome), string(MatchCriteria), string(MatchHTTP), string(MatchGRPC))
	c.require(m.Teams >= 1, "match.teams", "must be positive, not %d", m.Teams)
	c.require(m.TeamSize >= 1, "match.teamSize", "must be positive, not %d", m.TeamSize)
	c.require(m.Teams <= MaxMatchTickets, "match.teams", "must be at most %d, not %d", MaxMatchTickets, m.Teams)
	c.require(c.err != nil || m.TeamSize <= MaxMatchTickets/m.Teams, "match.teamSize",
		"%d teams of %d are more than %d players", m.Teams, m.TeamSize, MaxMatchTickets)
	c.oneOf("match.acceptance", string(m.Acceptance), string(AcceptMutual), string(AcceptOneSided))
	for _, name := range slices.Sorted(maps.Keys(m.Weights)) {
		path := below("match.weights", name)
		c.require(name != "", path, "the name must not be empty")
		c.require(m.Weights[name] >= 0, path, "must be 0 or more, not %v", m.Weights[name])
	}
	for i, w := range m.Widen {
		path := fmt.Sprintf("match.widen[%d]", i)
		c.atLeast(path+".after", w.After, time.Millisecond)
		c.require(len(w.By) > 0, path+".by", "must name a criterion")
		for _, name := range slices.Sorted(maps.Keys(w.By)) {
			c.require(w.By[name] > 0, below(path+".by", name), "must be positive, not %v", w.By[name])
		}
	}
	c.called("match", string(m.Function), m.URL)
	c.atLeast("match.timeout", m.Timeout, time.Millisecond)
	c.require(m.FetchLimit >= 0, "match.fetchLimit", "must be 0 (no limit) or more, not %d", m.FetchLimit)
	c.require(m.Debounce >= 0, "match.debounce", "must be 0 or more, not %s", m.Debounce)
	c.require(m.Debounce.Std() <= time.Minute, "match.debounce", "must be at most a minute, not %s", m.Debounce)
}

func (c *checker) profile(p Profile) {
	names := map[string]bool{}
	for i, pool := range p.Pools {
		path := fmt.Sprintf("profile.pools[%d]", i)
		c.require(!names[pool.Name], path+".name", "duplicate pool %q", pool.Name)
		names[pool.Name] = true
		for j, f := range pool.DoubleRanges {
			at := fmt.Sprintf("%s.doubleRangeFilters[%d]", path, j)
			c.require(f.DoubleArg != "", at+".doubleArg", "must not be empty")
			c.require(f.Min <= f.Max, at+".min", "must be at most max, %v, not %v", f.Max, f.Min)
			c.oneOf(at+".exclude", string(f.Exclude),
				"", string(ExcludeNone), string(ExcludeMin), string(ExcludeMax), string(ExcludeBoth))
		}
		for j, f := range pool.StringEquals {
			c.require(f.StringArg != "", fmt.Sprintf("%s.stringEqualsFilters[%d].stringArg", path, j),
				"must not be empty")
		}
		for j, f := range pool.TagsPresent {
			c.require(f.Tag != "", fmt.Sprintf("%s.tagPresentFilters[%d].tag", path, j), "must not be empty")
		}
	}
}

func (c *checker) assigner(a AssignBy) {
	c.oneOf("assigner.kind", string(a.Kind), string(AssignStatic), string(AssignWebhook), string(AssignAgones))
	if a.Kind != AssignStatic {
		c.url("assigner.url", a.URL)
	}
	c.require(a.Secret == "" || a.SecretFile == "", "assigner.secretFile", "must be empty if there is a secret")
	c.atLeast("assigner.timeout", a.Timeout, time.Millisecond)
}

// called checks the URL of a part that calls a service, by its kind.
func (c *checker) called(path, kind, address string) {
	switch kind {
	case evaluatorHTTP:
		c.url(path+".url", address)
	case evaluatorGRPC:
		c.require(address != "", path+".url", "must not be empty")
	}
}

func (c *checker) url(path, address string) {
	c.require(address != "", path, "must not be empty")
	u, err := url.Parse(address)
	var parse *url.Error
	if errors.As(err, &parse) {
		err = parse.Err // without the URL, which may contain a password
	}
	c.require(err == nil, path, "must be a URL: %v", err)
	c.require(c.err != nil || (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", path,
		"must be a URL such as http://host/path")
}

// below returns the path of a member.
func below(path, name string) string { return path + "." + name }
