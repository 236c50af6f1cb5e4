package access_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// born is when all tickets were created.
var born = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// owners is an access.Owners: it maps tickets to their owners. The lookup of the ticket "down" fails.
type owners map[string]string

func (o owners) Owner(_ context.Context, ticket string) (string, time.Time, error) {
	if ticket == "down" {
		return "", time.Time{}, fault.ErrUnavailable
	}
	owner, ok := o[ticket]
	if !ok {
		return "", time.Time{}, &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoTicket}
	}
	return owner, born, nil
}

// ticketsOf returns the tickets of owners, with the names that package matchmaking gives their channels.
func ticketsOf(o owners) access.Tickets {
	return access.Tickets{Owners: o, Channels: "ticket.", Subscriber: "player"}
}

func newGuard(t testing.TB, o access.Options) *access.Guard {
	t.Helper()
	g, err := access.New(o)
	require.NoError(t, err)
	return g
}

func grants(t testing.TB, text string) access.Grants {
	t.Helper()
	g, err := access.ParseGrants([]byte(text))
	require.NoError(t, err)
	return g
}

// user returns a user with grants.
func user(t testing.TB, subject, text string) *access.Principal {
	t.Helper()
	return &access.Principal{Kind: access.User, Subject: subject, Grants: grants(t, text)}
}

// key returns an API key with grants.
func key(t testing.TB, text string) *access.Principal {
	t.Helper()
	return &access.Principal{Kind: access.APIKey, Credential: "k", Grants: grants(t, text)}
}
