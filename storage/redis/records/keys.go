package records

import (
	"strings"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/sessions"
)

// keys makes the keys of sessions. Its value is the prefix.
type keys string

func (p keys) session(of sessions.Ref) string {
	return string(p) + records.Session.Key(of.User, of.ID)
}

// base returns the prefix of the keys of a user's sessions, before their IDs.
func (p keys) base(user string) string {
	const id = "0"
	return strings.TrimSuffix(p.session(sessions.Ref{User: user, ID: id}), id)
}

func (p keys) sessions(user string) string { return string(p) + records.UserSessions.Key(user) }

func (p keys) ended(user string) string { return string(p) + records.EndedSessions.Key(user) }

// The keys of Discours.io's applications.

func (p keys) legacy(l sessions.Legacy) string {
	return string(p) + records.LegacySession.Key(l.User, l.Username, l.Token)
}

func (p keys) source(l sessions.Legacy) string {
	return string(p) + records.SourceSession.Key(l.User, l.Token)
}

func (p keys) sourceSet(l sessions.Legacy) string {
	return string(p) + records.SourceUserSessions.Key(l.User)
}
