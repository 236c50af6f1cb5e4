package records

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/sessions"
	"github.com/tidemark-dev/tidemark/records/sessions/credentials"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// SessionCache reads sessions through client-side caching. It may be used by many goroutines.
type SessionCache struct {
	client *tracked.Client
}

var _ credentials.Cache = (*SessionCache)(nil)

// NewSessionCache returns the sessions in the Redis of a client.
func NewSessionCache(client *tracked.Client) *SessionCache { return &SessionCache{client: client} }

// Read implements credentials.Cache.
func (c *SessionCache) Read(ctx context.Context, of sessions.Ref) (credentials.Reading, error) {
	entry, err := c.client.HGetAll(ctx, keys("").session(of))
	if err != nil {
		return credentials.Reading{}, fmt.Errorf("read a session: %w", err)
	}
	created, errCreated := strconv.ParseInt(entry.Fields[fieldCreated], 10, 64)
	active, errActive := strconv.ParseInt(entry.Fields[fieldActive], 10, 64)
	if !entry.Found || errCreated != nil || errActive != nil {
		return credentials.Reading{}, sessions.ErrNotFound
	}
	return credentials.Reading{Fresh: entry.Fresh, Session: sessions.Session{
		ID: of.ID, User: of.User, Username: entry.Fields[fieldUsername], Created: time.Unix(created, 0).UTC(),
		LastActivity: time.Unix(active, 0).UTC(),
	}}, nil
}

// Listen implements credentials.Cache.
func (c *SessionCache) Listen(changed func(of sessions.Ref), lost func()) (stop func()) {
	return c.client.Listen(tracked.Listener{Lost: lost, Changed: func(key string) {
		if parts, ok := records.Session.Parse(key); ok {
			changed(sessions.Ref{User: parts[0], ID: parts[1]})
		}
	}})
}
