package access

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// request is one check, with the results of its look-ups.
type request struct {
	guard     *Guard
	principal *Principal
	resource  Resource
	subject   string // what {sub} stands for: a name, in records and owners the subject; "": it matches nothing
	barred    int    // {sub} matches no text that has the byte from which so many remain, see Options.Shared; 0: any text

	rules      *Rules // in which the channel's rule was looked up; nil: it wasn't
	found      *rule
	match      []int // of its pattern
	onlyByRule bool  // the rule allows the action, and no grant does
}

// rule returns the rule of the request's channel, or nil.
func (r *request) rule() *rule {
	if r.rules == nil {
		r.rules = r.guard.rules.Load()
		for i := range *r.rules {
			if rule := &(*r.rules)[i]; rule.pattern.MatchString(r.resource.Channel) {
				r.found = rule
				break
			}
		}
	}
	return r.found
}

// capture returns the text that the group with this name captured in the name of the channel, or "", also for a text that
// would stand where the names of users' channels have the user: see Options.Shared.
func (r *request) capture(name string) string {
	rule := r.rule()
	if rule == nil {
		return ""
	}
	if r.match == nil {
		r.match = rule.pattern.FindStringSubmatchIndex(r.resource.Channel)
	}
	channel := r.resource.Channel
	begin, end := rule.capture(name, r.match)
	rest := len(r.guard.shared(channel))
	if user := len(channel) - rest; rest > 0 && begin <= user && user < end {
		return ""
	}
	return channel[begin:end]
}

// Check returns nil if a principal may do something. Errors: ErrNoCredential if it has no credential, ErrNotGranted if
// it has, and those of the storage if the owner of a ticket isn't known. For a principal without access to all tickets,
// the answer is the same for a missing ticket and for somebody else's.
func (g *Guard) Check(ctx context.Context, p *Principal, a Action, res Resource) error {
	if g == nil {
		return nil
	}
	if p == nil {
		p = anonymous
	}
	if p.Kind == Administrator {
		return nil
	}
	r := request{guard: g, principal: p, resource: res, subject: p.ChannelName()}
	allowed, err := r.allowed(ctx, a)
	switch {
	case err != nil:
		return err
	case !allowed:
		return p.refusal(a)
	case r.onlyByRule:
		g.keep(ctx, &r, a)
	}
	return nil
}

// Recheck returns the error of Check for something that Check has allowed before a change of the rules. It reads no
// storage: rules don't decide about tickets.
func (g *Guard) Recheck(p *Principal, a Action, res Resource) error {
	if g == nil || p == nil || p.Kind == Administrator {
		return nil
	}
	if _, ok := g.tickets.of(res.Channel); ok && (p.Kind != APIKey || p.Grants.have(Ticket)) {
		return nil
	}
	r := request{guard: g, principal: p, resource: res, subject: p.ChannelName()}
	if r.granted(a) || r.byRule(a) {
		return nil
	}
	return p.refusal(a)
}

// CheckSome is Check before the resource is known: it returns an error if the principal may do the action to no
// resource at all.
func (g *Guard) CheckSome(p *Principal, a Action) error {
	if g == nil {
		return nil
	}
	if p == nil {
		p = anonymous
	}
	byOthers := len(*g.rules.Load()) > 0 || g.tickets.Owners != nil &&
		p.Kind != Nobody // rules of channels, or the tickets' owners
	if p.Kind == Administrator || p.Grants.have(a) || byOthers {
		return nil
	}
	return p.refusal(a)
}

// refusal returns the error for an action that the principal may not do.
func (p *Principal) refusal(a Action) error {
	if p.Kind == Nobody {
		return ErrNoCredential
	}
	return notGranted(a)
}

func (r *request) allowed(ctx context.Context, a Action) (bool, error) {
	res := &r.resource
	if *res == (Resource{}) {
		return r.principal.Grants.have(a), nil
	}
	if a == Ticket {
		return r.ticket(ctx, res.Ticket, res.Queue)
	}
	if id, ok := r.guard.tickets.of(res.Channel); ok {
		if a == Describe || a == Subscribe && res.Subscriber == r.guard.tickets.Subscriber {
			if allowed, err := r.ticket(ctx, id, ""); allowed || err != nil {
				return allowed, err
			}
		}
		// for users the owner of the ticket counts, not the name of the channel
		if r.principal.Kind != APIKey {
			return false, nil
		}
	}
	if r.granted(a) {
		return true, nil
	}
	r.onlyByRule = r.byRule(a)
	return r.onlyByRule, nil
}

// granted reports whether a grant allows an action other than Ticket.
func (r *request) granted(a Action) bool {
	for i := range r.principal.Grants {
		g := &r.principal.Grants[i]
		if !slices.Contains(g.Actions, a) {
			continue
		}
		switch a {
		case Publish, Describe:
			if r.channel(g) {
				return true
			}
		case Subscribe:
			if r.channel(g) && r.subscriber(g) {
				return true
			}
		case Queue, Direct, Backfill:
			if contain(g.Queues, r.resource.Queue, r) {
				return true
			}
		case Read, Write:
			if r.record(g) {
				return true
			}
		case Admin:
			return true
		case Ticket, Metrics, Any:
		}
	}
	return false
}

// channel reports whether a grant includes the channel.
func (r *request) channel(g *Grant) bool {
	r.barred = len(r.guard.shared(r.resource.Channel))
	defer func() { r.barred = 0 }()
	return contain(g.Channels, r.resource.Channel, r)
}

// subscriber reports whether a grant includes the subscriber, or any one for a tail.
func (r *request) subscriber(g *Grant) bool {
	if g.Subscribers == nil {
		return r.own()
	}
	named := *r
	if strings.Contains(r.subject, ":") { // ann:phone is a device of ann
		named.subject = ""
	}
	if r.resource.Tail {
		return slices.ContainsFunc(g.Subscribers, func(p Pattern) bool { return p.matchesAny(&named) })
	}
	return contain(g.Subscribers, r.resource.Subscriber, &named)
}

// own reports whether the subscriber belongs to the principal, or any one for a tail.
func (r *request) own() bool {
	if r.resource.Tail {
		return r.principal.ownsAny()
	}
	return r.principal.owns(r.resource.Subscriber)
}

// record reports whether a grant includes the record. Without a list, the grants of API keys include all records, and
// those of users none.
func (r *request) record(g *Grant) bool {
	if g.Records == nil {
		return r.principal.Kind == APIKey
	}
	encoded := *r
	encoded.subject = separators.Replace(r.principal.Subject) // as Record encodes IDs
	return contain(g.Records, r.resource.Record, &encoded)
}

// byRule reports whether the rule of the channel allows an action.
func (r *request) byRule(a Action) bool {
	if r.resource.Channel == "" || a != Publish && a != Subscribe && a != Describe {
		return false
	}
	rule := r.rule()
	switch {
	case rule == nil:
		return false
	case a == Publish:
		return include(rule.writers, r)
	case a == Subscribe && !r.own():
		return false
	}
	return include(rule.readers, r)
}

// ticket reports whether the principal may access a ticket (id), create one in a queue (queue), or create one with an
// ID (both).
func (r *request) ticket(ctx context.Context, id, queue string) (bool, error) {
	p := r.principal
	if p.Kind == TicketHolder {
		if queue != "" || id != p.Credential || r.guard.tickets.Owners == nil {
			return false, nil
		}
		return r.life(ctx, id)
	}
	for i := range p.Grants {
		g := &p.Grants[i]
		if !slices.Contains(g.Actions, Ticket) || queue != "" && !contain(g.Queues, queue, r) {
			continue
		}
		if ok, err := r.owner(ctx, g, id); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// life reports whether a ticket is the one of the holder's token, and not a later one with its ID.
func (r *request) life(ctx context.Context, id string) (bool, error) {
	if r.principal.Issued.IsZero() {
		return true, nil // no other ticket has the ID, ever
	}
	_, created, err := r.guard.tickets.Owners.Owner(ctx, id)
	if errors.Is(err, errNoTicket) {
		return false, nil
	}
	return err == nil && created.Equal(r.principal.Issued), err
}

// owner reports whether a grant includes the owner of a ticket.
func (r *request) owner(ctx context.Context, g *Grant, id string) (bool, error) {
	everyone := g.Owners == nil && r.principal.Kind == APIKey
	if id == "" || everyone || r.guard.tickets.Owners == nil {
		return true, nil
	}
	owner, _, err := r.guard.tickets.Owners.Owner(ctx, id)
	switch {
	case errors.Is(err, errNoTicket):
		return r.resource.Queue != "", nil // a new one is the principal's own
	case err != nil:
		return false, err
	case g.Owners == nil:
		return r.principal.isUser() && owner == r.principal.Subject, nil
	}
	ofSubject := *r
	ofSubject.subject = r.principal.Subject
	return contain(g.Owners, owner, &ofSubject), nil
}
