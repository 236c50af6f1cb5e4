package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// DefaultTTL is the default, and the maximum, time that a session lives without a check.
const DefaultTTL = 30 * 24 * time.Hour

// everybody is the name for callers without credentials in rules of channels. No user may have it: their tokens would
// be refused.
const everybody = "anonymous"

// Bounds of the keys of rotations.
const (
	MinKeyBytes = 16
	MaxKeyBytes = 128
)

// Options configures a Service.
type Options struct {
	Store   Store         // required
	TTL     time.Duration // life of a session without a check, from 1 s to DefaultTTL; 0: DefaultTTL
	PerUser int           // sessions of a user at most, up to MaxPerUser; 0: MaxPerUser
	// Revoked reports whether a session was revoked outside this service, such as with all credentials of its user;
	// nil: none is.
	Revoked func(Session) bool
	Metrics Metrics // nil: nothing is counted
}

// Outcome is the result of a check.
type Outcome string

// The outcomes.
const (
	Valid   Outcome = "valid"
	Unknown Outcome = "unknown" // ErrNotFound
	Failed  Outcome = "failed"  // the store failed
)

// Metrics counts the outcomes of Check.
type Metrics interface {
	Check(o Outcome)
}

type noMetrics struct{}

func (noMetrics) Check(Outcome) {}

// Service issues and checks sessions. It may be used by many goroutines.
type Service struct {
	store   Store
	rules   Rules
	metrics Metrics
	revoked func(Session) bool
}

// NewService returns a service. The error names the invalid option.
func NewService(o Options) (*Service, error) {
	s := &Service{
		store: o.Store, revoked: o.Revoked, metrics: o.Metrics,
		rules: Rules{TTL: cmp.Or(o.TTL, DefaultTTL), PerUser: cmp.Or(o.PerUser, MaxPerUser)},
	}
	if s.metrics == nil {
		s.metrics = noMetrics{}
	}
	switch {
	case s.rules.TTL < time.Second || s.rules.TTL > DefaultTTL:
		return nil, fmt.Errorf("the life of a session is %s, it must be from 1s to %s", s.rules.TTL, DefaultTTL)
	case s.rules.PerUser < 1 || s.rules.PerUser > MaxPerUser:
		return nil, fmt.Errorf("a user may have %d sessions, it must be from 1 to %d", s.rules.PerUser, MaxPerUser)
	}
	return s, nil
}

// Rules returns the rules for all sessions.
func (s *Service) Rules() Rules { return s.rules }

// Create makes a session for a user. If the user has too many, the one that was idle longest ends. A call whose answer
// was lost leaves an unused session until its TTL has passed. Errors: of kind Invalid, and those of the store.
func (s *Service) Create(ctx context.Context, user string, n New) (Issued, error) {
	if err := records.CheckID("user", user); err != nil {
		return Issued{}, err
	}
	if user == everybody {
		return Issued{}, &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidID, Field: "user",
			Detail: "user can't be " + everybody + ", which stands for those without credentials in rules of channels",
		}
	}
	if err := n.check(); err != nil {
		return Issued{}, err
	}
	text := tokens.New(user)
	made, err := s.store.Create(ctx, Draft{Ref: refOf(user, text), New: n}, s.rules)
	if err != nil {
		return Issued{}, err
	}
	return Issued{Token: text, Session: made}, nil
}

// Check returns the session of a token, and renews it if it was idle for Rules.RenewAfter. Errors: ErrNotFound, also
// for a malformed token, and those of the store.
func (s *Service) Check(ctx context.Context, token string) (Session, error) {
	of, ok := s.Parse(token)
	if !ok {
		s.metrics.Check(Unknown)
		return Session{}, ErrNotFound
	}
	return s.CheckRef(ctx, of)
}

// CheckRef is Check for the session of a token that was parsed.
func (s *Service) CheckRef(ctx context.Context, of Ref) (Session, error) {
	found, err := s.valid(s.store.Check(ctx, of, s.rules))
	switch {
	case err == nil:
		s.metrics.Check(Valid)
	case errors.Is(err, ErrNotFound):
		s.metrics.Check(Unknown)
	default:
		s.metrics.Check(Failed)
	}
	return found, err
}

// valid returns the result of a call of the store, or ErrNotFound if the session was revoked elsewhere.
func (s *Service) valid(found Session, err error) (Session, error) {
	if err == nil && s.revoked != nil && s.revoked(found) {
		return Session{}, ErrNotFound
	}
	return found, err
}

// Accepts reports whether a token has the prefix of a session's token.
func (s *Service) Accepts(token string) bool { return strings.HasPrefix(token, Prefix) }

// Parse returns the session of a token if it has the form of one that Create has issued. The session need not exist.
func (s *Service) Parse(token string) (Ref, bool) {
	user, ok := tokens.User(token)
	if !ok {
		return Ref{}, false
	}
	return refOf(user, token), true
}

// Rotate replaces the token of a session by another one, in one step: the old one isn't valid any more. If its answer
// was lost, it can be repeated with the same key, a secret random text of MinKeyBytes to MaxKeyBytes: it returns the
// same token again, as long as that is valid. Without a key ("") a repetition fails with ErrNotFound. Errors:
// ErrNotFound, of kind Invalid, and those of the store.
func (s *Service) Rotate(ctx context.Context, token, key string) (Issued, error) {
	if key != "" && (len(key) < MinKeyBytes || len(key) > MaxKeyBytes) {
		return Issued{}, invalid("idempotencyKey", fmt.Sprintf("has %d bytes, it must have from %d to %d", len(key),
			MinKeyBytes, MaxKeyBytes))
	}
	of, ok := s.Parse(token)
	if !ok {
		return Issued{}, ErrNotFound
	}
	next := nextToken(of.User, token, key)
	rotated, err := s.valid(s.store.Rotate(ctx, of, refOf(of.User, next).ID, s.rules))
	if err != nil {
		return Issued{}, err
	}
	return Issued{Token: next, Session: rotated}, nil
}

// Revoke ends a session of a user, if there is one with this ID. Errors: of kind Invalid, and those of the store.
func (s *Service) Revoke(ctx context.Context, user, id string) error {
	if err := records.CheckID("user", user); err != nil {
		return err
	}
	if !IsID(id) {
		return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidID, Field: "id",
			Detail: "id isn't that of a session: 64 hexadecimal digits"}
	}
	return s.store.Revoke(ctx, Ref{User: user, ID: id})
}

// RevokeAll ends all sessions of a user, and returns how many there were. Errors: of kind Invalid, and those of the
// store.
func (s *Service) RevokeAll(ctx context.Context, user string) (int, error) {
	if err := records.CheckID("user", user); err != nil {
		return 0, err
	}
	return s.store.RevokeAll(ctx, user)
}

// List returns all sessions of a user, without AuthData, the one that was active last first. Errors: of kind
// Invalid, and those of the store.
func (s *Service) List(ctx context.Context, user string) ([]Session, error) {
	if err := records.CheckID("user", user); err != nil {
		return nil, err
	}
	found, err := s.store.List(ctx, user)
	slices.SortFunc(found, func(a, b Session) int {
		return cmp.Or(b.LastActivity.Compare(a.LastActivity), b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	return found, err
}
