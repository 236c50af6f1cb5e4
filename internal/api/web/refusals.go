package web

import (
	"errors"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/redact"
)

// Refusal is a request whose credential was refused: it is missing, isn't valid, or doesn't grant the request. It never
// has the credential.
type Refusal struct {
	Client       string // network of the client's address
	Principal    string // empty: not known
	Slug         fault.Slug
	Reason       string // as in the log
	Method, Path string
	Since, Last  time.Time
	Count        int // of the same client, principal and slug; the other members are those of the last one
}

// refused identifies refusals that are one entry.
type refused struct {
	client, principal string
	slug              fault.Slug
}

// isRefusal reports whether an answer refuses a credential.
func isRefusal(status int, err error) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden && errors.Is(err, access.ErrNotGranted)
}

// The bounds of the texts of a Refusal.
const (
	maxReason = 256
	maxPath   = 256
)

// remember adds a refused request to the recent ones.
func (l *requestLog) remember(entry logged) {
	var e *fault.Error
	if !errors.As(entry.err, &e) {
		return
	}
	key := refused{client: access.NetworkName(access.Network(entry.client)), slug: e.Slug}
	if entry.principal != nil && entry.principal.Kind != access.Nobody {
		key.principal = entry.principal.Name()
	}
	l.recent.Add(key, Refusal{Reason: redact.Cut(redact.Credentials(entry.err.Error()), maxReason), Method: entry.method,
		Path: redact.Cut(redact.Credentials(entry.path), maxPath)}, time.Now())
}

// Refusals returns the requests whose credentials were refused recently, the last one first: at most recent.Max.
func (r *Router) Refusals() []Refusal {
	entries := r.log.recent.All()
	all := make([]Refusal, len(entries))
	for i, e := range entries {
		all[i] = e.Value
		all[i].Client, all[i].Principal, all[i].Slug = e.Key.client, e.Key.principal, e.Key.slug
		all[i].Since, all[i].Last, all[i].Count = e.Since, e.Last, e.Count
	}
	return all
}
