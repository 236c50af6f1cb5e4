package limits

import (
	"time"

	"github.com/tidemark-dev/tidemark/internal/access"
)

// Limited is a client that is refused, since it is beyond a limit.
type Limited struct {
	Who   string // a principal's name, or a network
	Of    string // whose limit it is: user, key, address or quota
	Limit string // its name
	Value string // such as 100/s
	Since time.Time
	Last  time.Time // the last refusal
	Count int       // refusals since Since
}

// refusal identifies a client and a limit.
type refusal struct{ who, of, limit string }

// LimitedFor is how long after its last refusal a client counts as limited.
const LimitedFor = time.Minute

// Limited returns the clients that are limited at a time, the one that was refused last first: at most recent.Max.
func (l *Limiter) Limited(now time.Time) []Limited {
	all := []Limited{}
	for _, e := range l.refusals.All() {
		if now.Sub(e.Last) > LimitedFor {
			break
		}
		all = append(all, Limited{Who: e.Key.who, Of: e.Key.of, Limit: e.Key.limit, Value: e.Value, Since: e.Since,
			Last: e.Last, Count: e.Count})
	}
	return all
}

// refused counts a refusal of a client.
func (l *Limiter) refused(r refusal, value string) {
	l.o.Refused(r.limit, r.of)
	l.refusals.Add(r, value, time.Now())
}

// label returns the name of a principal or a network.
func (w who) label() string {
	switch w.kind {
	case access.Nobody:
		return access.NetworkName(w.network)
	case access.User, access.Session:
		return (&access.Principal{Kind: access.User, Subject: w.name}).Name()
	case access.APIKey, access.TicketHolder, access.Administrator:
	}
	return (&access.Principal{Kind: w.kind, Credential: w.name}).Name()
}
