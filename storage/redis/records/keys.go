package records

import (
	"strings"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
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
