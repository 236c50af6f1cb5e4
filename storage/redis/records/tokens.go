package records

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/tokens"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// The scripts of tokens.
var (
	issueScript       = lua.Must("records/tokens/issue")
	tokensStateScript = lua.Must("records/tokens/state")
	takeScript        = lua.Must("records/tokens/take")
	putScript         = lua.Must("records/tokens/put")
	getScript         = lua.Must("records/tokens/get")
)

const statusNone redis.Status = "NONE"

// Tokens keeps tokens in Redis. It may be used by many goroutines.
type Tokens struct {
	conn *redis.Conn
}

var _ tokens.Store = (*Tokens)(nil)

// NewTokens returns the tokens in the Redis of a connection.
func NewTokens(conn *redis.Conn) *Tokens { return &Tokens{conn: conn} }

func (s *Tokens) key(k *records.Kind, parts ...string) string {
	return key(s.conn, k, parts...)
}

// Issue implements tokens.Verifications.
func (s *Tokens) Issue(ctx context.Context, hash string, v tokens.Verification) (ends time.Time, err error) {
	key := s.key(records.VerificationKind, v.User, string(v.Type), hash)
	keys := []string{key, s.key(records.CurrentVerificationKind, v.User, string(v.Type))}
	args := []string{hash, strings.TrimSuffix(key, hash), v.User, string(v.Type), string(v.Data),
		redis.Milliseconds(records.VerificationKind.TTL)}
	reply, err := s.conn.Run(ctx, issueScript, keys, args)
	if err != nil {
		return time.Time{}, fmt.Errorf("issue: %w", err)
	}
	return endOf(reply)
}

// KeepState implements tokens.States.
func (s *Tokens) KeepState(ctx context.Context, hash string, n tokens.State) (ends time.Time, err error) {
	args := []string{n.Provider, n.RedirectURI, n.CSRFToken, redis.Milliseconds(records.OAuthStateKind.TTL)}
	reply, err := s.conn.Run(ctx, tokensStateScript, []string{s.key(records.OAuthStateKind, hash)}, args)
	if err != nil {
		return time.Time{}, fmt.Errorf("keep a state: %w", err)
	}
	return endOf(reply)
}

// TakeVerification implements tokens.Verifications.
func (s *Tokens) TakeVerification(
	ctx context.Context, hash string, of tokens.Verification, attempt string,
) (v tokens.Verification, err error) {
	fields, err := s.take(ctx, s.key(records.VerificationKind, of.User, string(of.Type), hash), attempt)
	switch {
	case err != nil:
		return v, fmt.Errorf("take a verification: %w", err)
	case fields == nil:
		return v, tokens.ErrNoVerification
	}
	v = tokens.Verification{User: fields["user_id"], Type: tokens.Type(fields["verification_type"])}
	if data := fields["data"]; data != "" {
		v.Data = []byte(data)
	}
	v.Created, err = secondsOf(fields["created_at"])
	return v, err
}

// TakeState implements tokens.States.
func (s *Tokens) TakeState(ctx context.Context, hash, attempt string) (n tokens.State, err error) {
	fields, err := s.take(ctx, s.key(records.OAuthStateKind, hash), attempt)
	switch {
	case err != nil:
		return n, fmt.Errorf("take a state: %w", err)
	case fields == nil:
		return n, tokens.ErrNoState
	}
	n = tokens.State{Provider: fields["provider"], RedirectURI: fields["redirect_uri"], CSRFToken: fields["csrf_token"]}
	n.Created, err = secondsOf(fields["created_at"])
	return n, err
}

// take returns the fields of the taken entry, or nil if there is none.
func (s *Tokens) take(ctx context.Context, key, attempt string) (map[string]string, error) {
	reply, err := s.conn.Run(ctx, takeScript, []string{key}, []string{attempt, redis.Milliseconds(tokens.RepeatLife)})
	if err != nil {
		return nil, err
	}
	return fieldsOf(reply)
}

// fieldsOf decodes the reply of take.lua.
func fieldsOf(reply redis.Reply) (map[string]string, error) {
	d := reply.Decoder()
	switch reply.Status {
	case redis.OK:
		fields := map[string]string{}
		for d.More() {
			field := d.Text()
			fields[field] = d.Text()
		}
		return fields, d.End()
	case statusNone:
		return nil, d.End()
	default:
		return nil, redis.Refusals(nil).Error(reply)
	}
}

// endOf decodes the replies of issue.lua and state.lua.
func endOf(reply redis.Reply) (time.Time, error) {
	if reply.Status != redis.OK {
		return time.Time{}, redis.Refusals(nil).Error(reply)
	}
	d := reply.Decoder()
	ends := d.Millis()
	return ends, d.End()
}

// secondsOf is parseSeconds for a field of a reply.
func secondsOf(text string) (time.Time, error) {
	at, err := parseSeconds(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: created_at: %w", redis.ErrReply, err)
	}
	return at, nil
}

// parseSeconds parses a time of Discours.io: seconds since 1970, with a fraction if Python has written a float.
func parseSeconds(text string) (time.Time, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if float, errFloat := strconv.ParseFloat(text, 64); err != nil && errFloat == nil && math.Abs(float) < 1<<53 {
		n, err = int64(math.Floor(float)), nil
	}
	if err != nil {
		return time.Time{}, err
	}
	if n < 0 || n > lastSecond {
		return time.Time{}, fmt.Errorf("%d isn't a time in seconds since 1970", n)
	}
	return time.Unix(n, 0).UTC(), nil
}

const lastSecond = 253402300799 // of the year 9999
