package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
	"github.com/tidemark-dev/tidemark/internal/records/sessions/credentials"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// The scripts of sessions.
var (
	createScript    = lua.Must("records/sessions/create")
	checkScript     = lua.Must("records/sessions/check")
	rotateScript    = lua.Must("records/sessions/rotate")
	revokeScript    = lua.Must("records/sessions/revoke")
	revokeallScript = lua.Must("records/sessions/revokeall")
	listScript      = lua.Must("records/sessions/list")
)

var sessionRefusals = redis.Refusals{"UNKNOWN": sessions.ErrNotFound}

// The fields of a session, as in Discours.io. Its times are in the form of the scripts.
const (
	fieldUser     = "user_id"
	fieldUsername = "username"
	fieldType     = "token_type"
	fieldCreated  = "created_at"
	fieldActive   = "last_activity"
	fieldDevice   = "device_info"
	fieldAuth     = "auth_data"

	tokenType = "session"
)

// Sessions keeps sessions in Redis. It may be used by many goroutines.
type Sessions struct{ conn *redis.Conn }

var _ sessions.Store = (*Sessions)(nil)

// NewSessions returns the sessions in the Redis of a connection.
func NewSessions(conn *redis.Conn) *Sessions { return &Sessions{conn: conn} }

func (s *Sessions) key(of sessions.Ref) string {
	return key(s.conn, records.SessionKind, of.User, of.ID)
}

// base returns what the keys of a user's sessions begin with, before their IDs.
func (s *Sessions) base(user string) string {
	const id = "0"
	return strings.TrimSuffix(s.key(sessions.Ref{User: user, ID: id}), id)
}

// set returns the key of the set of a user's sessions.
func (s *Sessions) set(user string) string { return key(s.conn, records.UserSessionsKind, user) }

// Create implements sessions.Store.
func (s *Sessions) Create(ctx context.Context, d sessions.Draft, r sessions.Rules) (sessions.Session, error) {
	args := []string{
		d.ID, s.base(d.User), redis.Milliseconds(r.TTL), strconv.Itoa(r.PerUser),
		fieldUser, d.User, fieldUsername, d.Username, fieldType, tokenType,
	}
	if d.Device != nil {
		args = append(args, fieldDevice, string(d.Device))
	}
	if d.AuthData != nil {
		args = append(args, fieldAuth, string(d.AuthData))
	}
	reply, err := s.conn.Run(ctx, createScript, []string{s.key(d.Ref), s.set(d.User)}, args)
	if err != nil {
		return sessions.Session{}, fmt.Errorf("create a session: %w", err)
	}
	return s.session(ctx, reply, d.Ref)
}

// Check implements sessions.Store.
func (s *Sessions) Check(ctx context.Context, of sessions.Ref, r sessions.Rules) (sessions.Session, error) {
	reply, err := s.conn.Run(ctx, checkScript, []string{s.key(of), s.set(of.User)},
		[]string{of.ID, redis.Milliseconds(r.TTL), redis.Milliseconds(r.RenewAfter())})
	if err != nil {
		return sessions.Session{}, fmt.Errorf("check a session: %w", err)
	}
	return s.session(ctx, reply, of)
}

// Rotate implements sessions.Store.
func (s *Sessions) Rotate(ctx context.Context, of sessions.Ref, newID string, r sessions.Rules) (sessions.Session,
	error) {
	next := sessions.Ref{User: of.User, ID: newID}
	ks := []string{s.key(of), s.key(next), s.set(of.User)}
	reply, err := s.conn.Run(ctx, rotateScript, ks, []string{of.ID, newID, redis.Milliseconds(r.TTL)})
	if err != nil {
		return sessions.Session{}, fmt.Errorf("rotate a session: %w", err)
	}
	return s.session(ctx, reply, next)
}

// Revoke implements sessions.Store.
func (s *Sessions) Revoke(ctx context.Context, of sessions.Ref) error {
	reply, err := s.conn.Run(ctx, revokeScript, []string{s.key(of), s.set(of.User)}, []string{of.ID})
	if err != nil {
		return fmt.Errorf("revoke a session: %w", err)
	}
	return sessionRefusals.Check(reply, redis.OK)
}

// RevokeAll implements sessions.Store.
func (s *Sessions) RevokeAll(ctx context.Context, user string) (int, error) {
	reply, err := s.conn.Run(ctx, revokeallScript, []string{s.set(user)}, []string{s.base(user)})
	if err != nil {
		return 0, fmt.Errorf("revoke all sessions of a user: %w", err)
	}
	return countOf(reply)
}

const (
	sessionsPage = 100     // sessions that one run of list.lua reads
	pageShare    = 1 << 20 // bytes of the budget of large reads that a run takes, so that few of them follow each other
	listedBytes  = 256     // of a session in the answer, besides its name and its device, at most
)

// List implements sessions.Store. It reads in pages on the connection for large replies, within the budget: other
// requests don't wait. The memory of the answer is taken page by page; its errors are returned.
func (s *Sessions) List(ctx context.Context, user string) ([]sessions.Session, error) {
	var all []sessions.Session
	var unread []string // IDs that are to be read
	answer, bytes := unsent.From(ctx), int64(0)
	for first := true; first || len(unread) > 0; first = false {
		var reply redis.Reply
		page := unread[:min(len(unread), sessionsPage)]
		args := append([]string{s.base(user), strconv.Itoa(sessionsPage)}, page...)
		err := s.conn.Retry(ctx, "list the sessions of a user", func(ctx context.Context) (err error) {
			keys := []string{s.set(user)}
			_, release, err := s.conn.LargeRead(ctx, keys[0], pageShare)
			if err != nil {
				return err
			}
			defer release()
			result := listScript.Exec(ctx, s.conn.At(ctx, s.conn.Bulk(), keys[0]), keys, args)
			if reply, err = redis.NewReply(listScript.Name(), result); err == nil && reply.Status == redis.Moving {
				return redis.ErrMoving
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		found, rest, err := sessionsOf(reply, user, func(id string) { s.damaged(ctx, sessions.Ref{User: user, ID: id}) })
		if err != nil {
			return nil, err
		}
		if unread = unread[len(page):]; first {
			unread = rest
		}
		for i := range found {
			bytes += listedBytes + int64(len(found[i].Username)+len(found[i].Device))
		}
		if err := answer.Grow(bytes); err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// session is sessionOf. A session that is damaged counts as one that doesn't exist: its user can log in again.
func (s *Sessions) session(ctx context.Context, reply redis.Reply, of sessions.Ref) (sessions.Session, error) {
	found, err := sessionOf(reply, of)
	if errors.Is(err, errDamagedSession) {
		s.damaged(ctx, of)
		return sessions.Session{}, sessions.ErrNotFound
	}
	return found, err
}

func (s *Sessions) damaged(ctx context.Context, of sessions.Ref) {
	s.conn.Logger().ErrorContext(ctx, "cannot read a stored session, skipping it", "key", s.key(of), "error",
		errDamagedSession)
}

var errDamagedSession = errors.New("a session has a time that is none, or a field that isn't JSON in UTF-8")

// sessionOf decodes the replies of create.lua, check.lua and rotate.lua.
func sessionOf(reply redis.Reply, of sessions.Ref) (sessions.Session, error) {
	if reply.Status != redis.OK {
		return sessions.Session{}, sessionRefusals.Error(reply)
	}
	d := reply.Decoder()
	found := sessions.Session{ID: of.ID, User: of.User, Username: d.Text()}
	var created, active, device, auth bool
	found.Created, created = seconds(d)
	found.LastActivity, active = seconds(d)
	found.Device, device = value(d)
	found.AuthData, auth = value(d)
	found.Expires = time.UnixMilli(d.Int64()).UTC()
	if err := d.End(); err != nil || created && active && device && auth {
		return found, err
	}
	return sessions.Session{}, errDamagedSession
}

// countOf decodes the reply of revokeall.lua.
func countOf(reply redis.Reply) (int, error) {
	if reply.Status != redis.OK {
		return 0, sessionRefusals.Error(reply)
	}
	d := reply.Decoder()
	return int(d.Int64()), d.End()
}

// sessionsOf decodes the reply of list.lua. It calls damaged with the IDs of sessions that it leaves out.
func sessionsOf(reply redis.Reply, user string, damaged func(id string)) (page []sessions.Session, remaining []string,
	err error) {
	if reply.Status != redis.OK {
		return nil, nil, sessionRefusals.Error(reply)
	}
	d := reply.Decoder()
	remaining = d.Texts()
	for d.More() {
		session := sessions.Session{ID: d.Text(), User: user, Username: d.Text()}
		var created, active, device bool
		session.Created, created = seconds(d)
		session.LastActivity, active = seconds(d)
		session.Device, device = value(d)
		session.Expires = time.UnixMilli(d.Int64()).UTC()
		if !created || !active || !device {
			damaged(session.ID)
			continue
		}
		page = append(page, session)
	}
	return page, remaining, d.End()
}

// seconds returns a time. ok is false if it is damaged.
func seconds(d *redis.Decoder) (at time.Time, ok bool) {
	at, err := parseSeconds(d.Text())
	return at, err == nil
}

// value returns JSON, or nil if there is none. ok is false if it is damaged.
func value(d *redis.Decoder) (v json.RawMessage, ok bool) {
	b := d.Bytes()
	if len(b) == 0 {
		return nil, true
	}
	return b, strictjson.Valid(b)
}

// SessionTracker reads sessions on connections on which Redis reports their changes. It may be used by many goroutines.
type SessionTracker struct {
	client *tracked.Client
	kind   *records.Kind // of sessions
}

var _ credentials.Tracker = (*SessionTracker)(nil)

// NewSessionTracker returns the sessions in the Redis of a connection and of a client that was opened with it.
func NewSessionTracker(conn *redis.Conn, client *tracked.Client) *SessionTracker {
	return &SessionTracker{client: client, kind: records.SessionKind.In(conn.PlainKeys())}
}

// Read implements credentials.Tracker.
func (c *SessionTracker) Read(ctx context.Context, of sessions.Ref) (sessions.Session, error) {
	fields, ends, err := c.client.HGetAll(ctx, c.kind.Key(of.User, of.ID))
	if err != nil {
		return sessions.Session{}, fmt.Errorf("read a session: %w", err)
	}
	created, errCreated := parseSeconds(fields[fieldCreated])
	active, errActive := parseSeconds(fields[fieldActive])
	if errCreated != nil || errActive != nil { // there is none
		return sessions.Session{}, sessions.ErrNotFound
	}
	return sessions.Session{
		ID: of.ID, User: of.User, Username: fields[fieldUsername], Created: created, LastActivity: active,
		Expires: ends,
	}, nil
}

// Tracks implements credentials.Tracker.
func (c *SessionTracker) Tracks() bool { return c.client.Tracks() }

// Listen implements credentials.Tracker.
func (c *SessionTracker) Listen(changed func(of sessions.Ref), lost func()) (stop func()) {
	return c.client.Listen(tracked.Listener{Lost: lost, Changed: func(key string) {
		if parts, ok := c.kind.Parse(key); ok {
			changed(sessions.Ref{User: parts[0], ID: parts[1]})
		}
	}})
}
