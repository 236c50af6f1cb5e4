package records

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/tokens"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

func (s *Tokens) providerKeys(of tokens.Owner) []string {
	return []string{s.key(records.OAuthAccessKind, of.User, of.Provider),
		s.key(records.OAuthRefreshKind, of.User, of.Provider)}
}

// Put implements tokens.Providers.
func (s *Tokens) Put(ctx context.Context, of tokens.Owner, t tokens.Sealed) (tokens.Ends, error) {
	args := []string{string(t.Access), redis.Milliseconds(records.OAuthAccessKind.TTL), string(t.Refresh),
		redis.Milliseconds(records.OAuthRefreshKind.TTL)}
	reply, err := s.conn.Run(ctx, putScript, s.providerKeys(of), args)
	if err != nil {
		return tokens.Ends{}, fmt.Errorf("put: %w", err)
	}
	return endsOf(reply)
}

// endsOf decodes the reply of put.lua.
func endsOf(reply redis.Reply) (ends tokens.Ends, err error) {
	if reply.Status != redis.OK {
		return ends, redis.Refusals(nil).Error(reply)
	}
	d := reply.Decoder()
	ends.AccessEnds, ends.RefreshEnds = moment(d.Int64()), moment(d.Int64())
	return ends, d.End()
}

// Get implements tokens.Providers.
func (s *Tokens) Get(ctx context.Context, of tokens.Owner) (tokens.Sealed, error) {
	reply, err := s.conn.Run(ctx, getScript, s.providerKeys(of), nil)
	if err != nil {
		return tokens.Sealed{}, fmt.Errorf("get: %w", err)
	}
	return sealedOf(reply)
}

// sealedOf decodes the reply of get.lua.
func sealedOf(reply redis.Reply) (t tokens.Sealed, err error) {
	if reply.Status != redis.OK {
		return t, redis.Refusals(nil).Error(reply)
	}
	d := reply.Decoder()
	t.Access, t.AccessEnds = d.Bytes(), moment(d.Int64())
	t.Refresh, t.RefreshEnds = d.Bytes(), moment(d.Int64())
	return t, d.End()
}

// Delete implements tokens.Providers.
func (s *Tokens) Delete(ctx context.Context, of tokens.Owner) error {
	c := s.conn.Client()
	return s.conn.Retry(ctx, "delete OAuth tokens", func(ctx context.Context) error {
		return c.Do(ctx, c.B().Del().Key(s.providerKeys(of)...).Build()).Error()
	})
}

// moment returns a time in milliseconds since 1970; 0 and less are the zero time.
func moment(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
