package access_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// on is an action on a channel, as a subscriber if the action needs one.
type on struct {
	action     access.Action
	channel    string
	subscriber string
}

// ofTail is the subscriber of an action on a channel without one.
const ofTail = "(tail)"

func (o on) check(t *testing.T, g *access.Guard, p *access.Principal) error {
	t.Helper()
	resource := access.Resource{Channel: o.channel, Subscriber: o.subscriber}
	if o.subscriber == ofTail {
		resource = access.Resource{Channel: o.channel, Tail: true}
	}
	return g.Check(t.Context(), p, o.action, resource)
}

// TestPatterns matches channels against the pattern of a grant, for the subject "ann".
func TestPatterns(t *testing.T) {
	t.Parallel()
	g := newGuard(t, access.Options{Rules: []access.ChannelRule{{Pattern: `room[.](?P<room>[^.]*)[.](\w+)?.*`}}})
	tests := []struct {
		pattern  string
		matches  []string
		refuses  []string
		subjects []string // in place of ann
	}{
		{"*", []string{"a", "chat.lobby", "CHAT"}, nil, []string{"ann", ""}},
		{"chat.*", []string{"chat.lobby", "chat.", "chat.a.b"}, []string{"chat", "Chat.lobby", "chat%2elobby",
			"xchat.a", " chat.a", "chat:a"}, nil},
		{"chat.lobby", []string{"chat.lobby"}, []string{"chat.lobby2", "chat.lobb", "CHAT.LOBBY", "chat.lobby ",
			"chat.lobby\n", "chat-lobby"}, nil},
		{"a*b*c", []string{"abc", "axxbxxc", "abbc", "abcbc"}, []string{"ab", "ac", "acb", "xabc"}, nil},
		{"*.log", []string{".log", "a.log", "a.log.log"}, []string{"a.logs", "log"}, nil},
		{"a*a", []string{"aa", "aba"}, []string{"a"}, nil},
		{"**", []string{"a"}, nil, nil},
		{"?[a-z]\\.", []string{"?[a-z]\\."}, []string{"xa."}, nil},
		{"inbox.{sub}", []string{"inbox.ann"}, []string{"inbox.bob", "inbox.annette", "inbox.", "inbox.{sub}",
			"inbox.Ann", "inbox"}, nil},
		{"{sub}*{sub}", []string{"annann", "ann.ann"}, []string{"ann"}, nil},
		{"inbox.{sub}", nil, []string{"inbox.ann", "inbox.anything", "inbox."},
			[]string{"*", "", "{sub}", "a*", "*n", "{room}", "an", "ann\n", "ANN"}},
		{"inbox.{sub}*", nil, []string{"inbox.ann", "inbox."}, []string{"", "*"}},
		{"room.{room}.x", []string{"room.r.x"}, []string{"room..x", "room.r.y", "other.r.x"}, nil},
		{"*.{room}*", []string{"room.r.x"}, []string{"room..x", "other.r.x"}, nil},
		{"room.*.{2}", []string{"room.r.x"}, []string{"room.r."}, nil},
		{"{nothing}", nil, []string{"room.r.x", "nothing", "{nothing}"}, nil},
		{"{99}*", nil, []string{"room.r.x"}, nil},
	}
	for _, tt := range tests {
		if tt.subjects == nil {
			tt.subjects = []string{"ann"}
		}
		for _, subject := range tt.subjects {
			pattern, err := access.ParsePattern(tt.pattern)
			require.NoError(t, err)
			p := user(t, subject, `[]`)
			p.Grants = access.Grants{{Actions: []access.Action{access.Publish}, Channels: []access.Pattern{pattern}}}
			for _, channel := range tt.matches {
				require.NoError(t, on{access.Publish, channel, ""}.check(t, g, p), "%q for %q is %q", tt.pattern,
					subject, channel)
			}
			for _, channel := range tt.refuses {
				require.ErrorIs(t, on{access.Publish, channel, ""}.check(t, g, p), access.ErrNotGranted,
					"%q for %q isn't %q", tt.pattern, subject, channel)
			}
		}
	}
}

// TestGrants checks which requests grants allow, and which they don't.
func TestGrants(t *testing.T) {
	t.Parallel()
	g := newGuard(t, access.Options{Tickets: ticketsOf(owners{"hers": "ann", "his": "bob", "keys": ""})})
	channel := func(c, s string) access.Resource { return access.Resource{Channel: c, Subscriber: s} }
	tail := func(c string) access.Resource { return access.Resource{Channel: c, Tail: true} }
	ticket := func(id string) access.Resource { return access.Resource{Ticket: id} }
	queue := func(name string) access.Resource { return access.Resource{Queue: name} }
	record := access.Record
	type allowed map[access.Resource]bool
	tests := []struct {
		name      string
		principal *access.Principal
		action    access.Action
		allowed   allowed
	}{
		{"a user has its own subscribers", user(t, "ann", `[{"actions":["subscribe"]}]`), access.Subscribe, allowed{
			channel("c", "ann"): true, channel("c", "ann:phone"): true, channel("c", "anne"): false,
			channel("c", "bob"): false,
			channel("c", ""):    false, channel("c", "Ann"): false, channel("c", "ann."): false,
			channel("c", "x:ann"): false, {}: true,
		}},
		{"devices are no users", user(t, "ann:phone", `[{"actions":["subscribe"]}]`), access.Subscribe, allowed{
			channel("c", "ann:phone"): false, channel("c", "ann"): false, channel("c", "ann:phone:x"): false,
		}},
		{"nor if they are named", user(t, "ann:phone", `[{"actions":["subscribe"],"subscribers":["{sub}","{sub}:*"]}]`),
			access.Subscribe, allowed{
				channel("c", "ann:phone"): false, channel("c", ""): false, tail("c"): false,
			}},
		{"unless another is", user(t, "ann:phone", `[{"actions":["subscribe"],"subscribers":["{sub}","team-*"]}]`),
			access.Subscribe, allowed{tail("c"): true}},
		{"nor without a subject", user(t, "", `[{"actions":["subscribe"],"subscribers":["{sub}","{sub}:*"]}]`),
			access.Subscribe, allowed{channel("c", ":x"): false, tail("c"): false}},
		{"a tail for the own ones, named", user(t, "ann", `[{"actions":["subscribe"],"subscribers":["{sub}:*"]}]`),
			access.Subscribe, allowed{tail("c"): true}},
		{"a user without a subject", user(t, "", `[{"actions":["subscribe","ticket"]}]`), access.Subscribe, allowed{
			channel("c", ""): false, channel("c", ":x"): false, channel("c", "x"): false,
		}},
		{"named subscribers", user(t, "ann", `[{"actions":["subscribe"],"subscribers":["team-*"]}]`), access.Subscribe,
			allowed{
				channel("c", "team-1"): true, channel("c", "ann"): false,
			}},
		{"no subscribers", user(t, "ann", `[{"actions":["subscribe"],"subscribers":[]}]`), access.Subscribe,
			allowed{channel("c", "ann"): false}},
		{"a key has all subscribers", key(t, `[{"actions":["subscribe"],"channels":["c"]}]`), access.Subscribe, allowed{
			channel("c", "any"): true, channel("d", "any"): false,
		}},
		{"a tail is for who may subscribe", user(t, "ann", `[{"actions":["subscribe"],"channels":["c"]}]`),
			access.Subscribe, allowed{tail("c"): true, tail("d"): false, tail("ticket.hers"): false}},
		{"a tail for named subscribers", user(t, "ann", `[{"actions":["subscribe"],"subscribers":["team-*"]}]`),
			access.Subscribe, allowed{tail("c"): true}},
		{"no tail for no subscribers", user(t, "ann", `[{"actions":["subscribe"],"subscribers":[]}]`),
			access.Subscribe, allowed{tail("c"): false}},
		{"no tail without own subscribers", user(t, "", `[{"actions":["subscribe"]}]`), access.Subscribe,
			allowed{tail("c"): false}},
		{"no tail for a device", user(t, "ann:phone", `[{"actions":["subscribe"]}]`), access.Subscribe,
			allowed{tail("c"): false}},
		{"describe is no tail", user(t, "ann", `[{"actions":["describe","publish"]}]`), access.Subscribe,
			allowed{tail("c"): false}},
		{"a key's tail", key(t, `[{"actions":["subscribe"],"channels":["c"]}]`), access.Subscribe, allowed{
			tail("c"): true, tail("d"): false,
		}},
		{"no channels", key(t, `[{"actions":["publish"],"channels":[]}]`), access.Publish,
			allowed{channel("c", ""): false}},
		{"another action", key(t, `[{"actions":["publish"]}]`), access.Describe,
			allowed{channel("c", ""): false, {}: false}},
		{"no grants", user(t, "ann", `[]`), access.Publish, allowed{channel("c", ""): false, {}: false}},
		{"nor any", user(t, "ann", `[]`), access.Any, allowed{{}: false}},
		{"any action", key(t, `[{"actions":["publish"]}]`), access.Any, allowed{{}: true, channel("c", ""): false}},
		{"grants don't mix",
			key(t, `[{"actions":["publish"],"channels":["a"]},{"actions":["describe"],"channels":["b"]}]`),
			access.Publish, allowed{
				channel("a", ""): true, channel("b", ""): false,
			}},
		{"admin", key(t, `[{"actions":["admin"]}]`), access.Admin, allowed{{}: true, queue("q"): true}},
		{"an admin reads metrics", key(t, `[{"actions":["admin"]}]`), access.Metrics, allowed{{}: true}},
		{"metrics alone", key(t, `[{"actions":["metrics"]}]`), access.Metrics, allowed{{}: true}},
		{"and no more", key(t, `[{"actions":["metrics"]}]`), access.Admin, allowed{{}: false, queue("q"): false}},
		{"admin is no other", key(t, `[{"actions":["admin"]}]`), access.Queue, allowed{queue("q"): false}},
		{"others aren't admin", key(t, `[{"actions":["publish","subscribe","describe","ticket","queue"]}]`),
			access.Admin, allowed{{}: false}},
		{"queues", key(t, `[{"actions":["queue"],"queues":["duel*"]}]`), access.Queue, allowed{
			queue("duel"): true, queue("duels"): true, queue("race"): false, queue("*"): false, {}: true,
		}},
		{"all queues", key(t, `[{"actions":["queue"]}]`), access.Queue, allowed{queue("*"): true}},

		{"a key has all records", key(t, `[{"actions":["read"]}]`), access.Read, allowed{
			record("sessions"): true, record("sessions", "ann"): true, {}: true, channel("c", ""): true,
		}},
		{"but reading isn't writing", key(t, `[{"actions":["read"]}]`), access.Write,
			allowed{record("sessions", "ann"): false, {}: false}},
		{"a user has none", user(t, "ann", `[{"actions":["read","write"]}]`), access.Write, allowed{
			record("sessions", "ann"): false, record("sessions"): false, channel("c", ""): false,
		}},
		{"nor has a session", &access.Principal{Kind: access.Session, Subject: "ann",
			Grants: grants(t, `[{"actions":["read"]}]`)}, access.Read, allowed{
			record("sessions", "ann"): false,
		}},
		{"named records", user(t, "ann", `[{"actions":["read"],"records":["sessions/{sub}","locks/edit/*"]}]`),
			access.Read, allowed{
				record("sessions", "ann"): true, record("sessions", "ann/x"): false, record("sessions", "bob"): false,
				record("sessions"):          false,
				record("sessions", "{sub}"): false, record("locks", "edit", "7"): true,
				record("locks", "edit", "a/b"): true,
				record("locks", "edit/x", "7"): false, record("locks", "edit%2Fx", "7"): false,
				record("locks", "edit"):         false,
				record("views", "sessions/ann"): false,
			}},
		{"a star is any IDs, and parts of none", user(t, "ann", `[{"actions":["read"],"records":["locks/*/{sub}"]}]`),
			access.Read, allowed{
				record("locks", "edit", "ann"): true, record("locks", "a/b", "ann"): true,
				record("locks", "edit", "x/ann"): false, record("locks", "edit", "/ann"): false,
				record("locks", "edit", "x%2Fann"): false,
			}},
		{"a subject with a slash is one ID",
			user(t, "x/ann", `[{"actions":["read"],"records":["states/{sub}/*","sessions/{sub}"]}]`), access.Read,
			allowed{
				record("states", "x/ann", "7"): true, record("states", "x", "ann/7"): false,
				record("states", "x%2Fann", "7"): false,
				record("sessions", "x/ann"):      true, record("sessions", "x%2Fann"): false,
				record("sessions", "x", "ann"): false,
			}},
		{"a subject that looks like a pattern", user(t, "*", `[{"actions":["read"],"records":["sessions/{sub}"]}]`),
			access.Read, allowed{
				record("sessions", "ann"): false, record("sessions", "*"): true, record("sessions", ""): false,
			}},
		{"no records", key(t, `[{"actions":["read"],"records":[]}]`), access.Read,
			allowed{record("sessions"): false, record("sessions", "ann"): false}},

		{"a user has its own tickets", user(t, "ann", `[{"actions":["ticket"]}]`), access.Ticket, allowed{
			ticket("hers"): true, ticket("his"): false, ticket("keys"): false, ticket("none"): false, queue("q"): true,
			{Ticket: "his", Queue: "q"}: false, {Ticket: "new", Queue: "q"}: true,
		}},
		{"their queues", user(t, "ann", `[{"actions":["ticket"],"queues":["duel"]}]`), access.Ticket, allowed{
			ticket("hers"): true, queue("duel"): true, queue("race"): false, {Ticket: "hers", Queue: "race"}: false,
		}},
		{"without a subject", user(t, "", `[{"actions":["ticket"]},{"actions":["ticket"],"owners":["{sub}"]}]`),
			access.Ticket, allowed{
				ticket("keys"): false, ticket("hers"): false,
			}},
		{"tickets of others", user(t, "ann", `[{"actions":["ticket"],"owners":["b*"]}]`), access.Ticket, allowed{
			ticket("hers"): false, ticket("his"): true, ticket("keys"): false,
		}},
		{"tickets of nobody", key(t, `[{"actions":["ticket"],"owners":[]}]`), access.Ticket,
			allowed{ticket("keys"): false, queue("q"): true}},
		{"a key has all tickets", key(t, `[{"actions":["ticket"]}]`), access.Ticket,
			allowed{ticket("hers"): true, ticket("keys"): true, ticket("down"): true}},
		{"a ticket's channel", user(t, "ann", `[{"actions":["ticket"]}]`), access.Subscribe, allowed{
			channel("ticket.hers", "player"): true, channel("ticket.hers", "ann"): false,
			channel("ticket.his", "player"):  false,
			channel("TICKET.hers", "player"): false, channel("ticket.hers", "Player"): false,
		}},
		{"described", user(t, "ann", `[{"actions":["ticket"]}]`), access.Describe, allowed{
			channel("ticket.hers", ""): true, channel("ticket.his", ""): false, channel("c", ""): false,
		}},
		{"by no other grant", user(t, "player", `[{"actions":["subscribe","describe"],"subscribers":["*"]}]`),
			access.Subscribe, allowed{
				channel("ticket.hers", "player"): false, channel("tickets", "player"): true,
			}},
		{"but for keys", key(t, `[{"actions":["subscribe"]}]`), access.Subscribe,
			allowed{channel("ticket.hers", "player"): true}},

		{"a holder has its ticket", holder("hers", born), access.Ticket, allowed{
			ticket("hers"): true, ticket("his"): false, queue("q"): false, {Ticket: "hers", Queue: "q"}: false,
			{}: false,
		}},
		{"which has ended", holder("gone", born), access.Ticket, allowed{ticket("gone"): false, ticket("hers"): false}},
		{"which is the only one with its ID", holder("gone", time.Time{}), access.Ticket,
			allowed{ticket("gone"): true, ticket("hers"): false}},
		{"not a later one with its ID", holder("hers", born.Add(-time.Hour)), access.Ticket,
			allowed{ticket("hers"): false}},
		{"and its channel", holder("hers", born), access.Subscribe, allowed{
			channel("ticket.hers", "player"): true, channel("ticket.hers", "x"): false,
			channel("ticket.his", "player"): false, channel("c", "player"): false,
		}},
		{"nobody", access.Anonymous(), access.Ticket, allowed{ticket("hers"): false, ticket("none"): false,
			queue("q"): false, {}: false}},
		{"the administrator", access.Local(), access.Admin, allowed{{}: true, channel("c", ""): true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for resource, allowed := range tt.allowed {
				err := g.Check(t.Context(), tt.principal, tt.action, resource)
				switch {
				case allowed:
					require.NoError(t, err, resource)
				case tt.principal.Kind == access.Nobody:
					require.ErrorIs(t, err, access.ErrNoCredential, resource)
				default:
					require.ErrorIs(t, err, access.ErrNotGranted, resource)
				}
			}
		})
	}
}

func holder(ticket string, created time.Time) *access.Principal {
	return &access.Principal{Kind: access.TicketHolder, Credential: ticket, Issued: created}
}

// TestTicketsByTheStore: errors of the store are returned, and without tickets their channels are as others.
func TestTicketsByTheStore(t *testing.T) {
	t.Parallel()
	ann := user(t, "ann", `[{"actions":["ticket","subscribe"]}]`)
	g := newGuard(t, access.Options{Tickets: ticketsOf(owners{})})
	down := access.Resource{Ticket: "down"}
	require.ErrorIs(t, g.Check(t.Context(), ann, access.Ticket, down), fault.ErrUnavailable)
	require.ErrorIs(t, g.Check(t.Context(), holder("down", born), access.Ticket, down), fault.ErrUnavailable)
	require.ErrorIs(t, on{access.Subscribe, "ticket.down", "player"}.check(t, g, ann), fault.ErrUnavailable)

	g = newGuard(t, access.Options{})
	require.NoError(t, on{access.Subscribe, "ticket.down", "ann"}.check(t, g, ann))
	require.ErrorIs(t, g.Check(t.Context(), holder("x", born), access.Ticket, access.Resource{Ticket: "x"}),
		access.ErrNotGranted)
	require.Equal(t, matchmaking.ChannelPrefix+"x", matchmaking.ChannelOf("x"))
	require.Equal(t, "ticket.", matchmaking.ChannelPrefix)
	require.Equal(t, "player", matchmaking.Subscriber)
}

// TestRules checks the readers and writers that rules of channels allow.
func TestRules(t *testing.T) {
	t.Parallel()
	rules := []access.ChannelRule{
		{Pattern: `open[.].*`, Readers: []string{"anonymous"}, Writers: []string{"*"}, QueryToken: true},
		{Pattern: `all[.].*`, Readers: []string{"*"}},
		{Pattern: `inbox[.](?P<user>[^.]*)`, Readers: []string{"${user}", "$1:*", "admin-*"},
			Writers: []string{"*-bot"}},
		{Pattern: `shared[.](?P<a>.*)[.](?P<b>.*)`, Readers: []string{"${a}*${b}"}},
		{Pattern: `users[.].*`, Readers: []string{"**"}},
		{Pattern: `closed[.].*`},
		{Pattern: `.*[.]lobby`, Writers: []string{"anonymous"}},
	}
	g := newGuard(t, access.Options{Rules: rules, Tickets: ticketsOf(owners{})})
	ann, star, empty := user(t, "ann", `[]`), user(t, "*", `[]`), user(t, "", `[]`)
	bot, back, none := user(t, "x-bot", `[]`), key(t, `[]`), access.Anonymous()
	session := &access.Principal{Kind: access.Session, Subject: "ann"}
	tests := []struct {
		on      on
		allowed []*access.Principal // of all
	}{
		{on{access.Subscribe, "open.x", "ann"}, []*access.Principal{ann, session, back}},
		{on{access.Subscribe, "open.x", "anonymous"}, []*access.Principal{back, none, holder("x", born)}},
		{on{access.Subscribe, "open.x", "anonymous:7"}, []*access.Principal{back, none, holder("x", born)}},
		{on{access.Subscribe, "open.x", ofTail}, []*access.Principal{ann, star, bot, session, back, none,
			holder("x", born)}},
		{on{access.Subscribe, "all.x", ofTail}, []*access.Principal{ann, star, bot, session, back}},
		{on{access.Subscribe, "inbox.ann", ofTail}, []*access.Principal{ann, session}},
		{on{access.Subscribe, "closed.x", ofTail}, nil},
		{on{access.Describe, "open.x", ""}, []*access.Principal{ann, star, empty, bot, session, back, none,
			holder("x", born)}},
		{on{access.Publish, "open.x", ""}, []*access.Principal{ann, star, empty, bot, session, back}},
		{on{access.Subscribe, "all.x", "ann:phone"}, []*access.Principal{ann, session, back}},
		{on{access.Describe, "all.x", ""}, []*access.Principal{ann, star, empty, bot, session, back}},
		{on{access.Publish, "all.x", ""}, nil},
		{on{access.Describe, "inbox.ann", ""}, []*access.Principal{ann, session}},
		{on{access.Describe, "inbox.Ann", ""}, nil},
		{on{access.Describe, "inbox.*", ""}, []*access.Principal{star}},
		{on{access.Describe, "inbox.", ""}, nil},
		{on{access.Describe, "inbox.a", ""}, nil},
		{on{access.Describe, "xinbox.ann", ""}, nil},
		{on{access.Describe, "inbox.ann\n", ""}, nil},
		{on{access.Publish, "inbox.ann", ""}, []*access.Principal{bot}},
		{on{access.Describe, "shared.a.n", ""}, []*access.Principal{ann, session}},
		{on{access.Describe, "shared..n", ""}, nil},
		{on{access.Describe, "shared..", ""}, nil},
		{on{access.Describe, "users.x", ""}, []*access.Principal{ann, star, bot, session}},
		{on{access.Publish, "closed.lobby", ""}, nil},
		{on{access.Publish, "a.lobby", ""}, []*access.Principal{ann, star, empty, bot, session, back, none,
			holder("x", born)}},
		{on{access.Queue, "open.x", ""}, nil},
		{on{access.Admin, "open.x", ""}, nil},
	}
	for _, tt := range tests {
		for _, p := range []*access.Principal{ann, star, empty, bot, session, back, none, holder("x", born)} {
			var want error
			if !contains(tt.allowed, p) {
				want = access.ErrNotGranted
				if p == none {
					want = access.ErrNoCredential
				}
			}
			require.ErrorIs(t, tt.on.check(t, g, p), want, "%s %v", p.Name(), tt.on)
		}
	}
	require.True(t, g.QueryToken("open.x"))
	require.False(t, g.QueryToken("all.x"))
	require.False(t, g.QueryToken("none"))
	all := newGuard(t, access.Options{Rules: []access.ChannelRule{{Pattern: `.*`, QueryToken: true}}})
	require.True(t, all.QueryToken("c"))
	require.False(t, all.QueryToken(""), "a request about a ticket or a queue")
}

func contains(list []*access.Principal, p *access.Principal) bool {
	for _, principal := range list {
		if principal.Kind == p.Kind && principal.Name() == p.Name() {
			return true
		}
	}
	return false
}

// TestNamesOfSubjects: a user whose subject is no name has channels and subscribers under the name that stands for it,
// and nobody else can have that.
func TestNamesOfSubjects(t *testing.T) {
	t.Parallel()
	g := newGuard(t, access.Options{Rules: []access.ChannelRule{
		{Pattern: `inbox[.](?P<user>.+)`, Readers: []string{"${user}"}},
		{Pattern: `staff`, Readers: []string{"*@example.com", "auth0|1"}},
		{Pattern: `team[.](?P<team>.*)`, Readers: []string{"${team}-*", "*_${team}"}},
	}, Tickets: ticketsOf(owners{"hers": "ann@example.com"})})
	const grants = `[{"actions":["publish"],"channels":["out.{sub}"]},
		{"actions":["subscribe"],"channels":["all"]},{"actions":["subscribe"],"channels":["both"],"subscribers":["{sub}.*"]},
		{"actions":["read"],"records":["sessions/{sub}"]},{"actions":["ticket"],"owners":["{sub}"]}]`
	const name = "xs--ann_40example.com"
	ann, thief := user(t, "ann@example.com", grants), user(t, name, grants)
	require.Equal(t, name, ann.ChannelName())
	for _, what := range []on{
		{access.Publish, "out." + name, ""}, {access.Subscribe, "all", name}, {access.Subscribe, "all", name + ":phone"},
		{access.Subscribe, "both", name + ".x"}, {access.Subscribe, "inbox." + name, name},
		{access.Describe, "inbox." + name, ""}, {access.Describe, "staff", ""},
	} {
		require.NoError(t, what.check(t, g, ann), "%v", what)
		require.ErrorIs(t, what.check(t, g, thief), access.ErrNotGranted, "%v", what)
	}
	require.NoError(t, on{access.Describe, "staff", ""}.check(t, g, user(t, "auth0|1", grants)))
	for _, team := range []string{"team.xs", "team.40example.com"} {
		require.ErrorIs(t, on{access.Describe, team, ""}.check(t, g, ann), access.ErrNotGranted, "a star is of subjects")
	}
	for action, resource := range map[access.Action]access.Resource{
		access.Ticket: {Ticket: "hers"}, access.Read: access.Record("sessions", "ann@example.com"),
	} {
		require.NoError(t, g.Check(t.Context(), ann, action, resource), "the subject itself")
		require.ErrorIs(t, g.Check(t.Context(), thief, action, resource), access.ErrNotGranted)
	}
	require.NoError(t, on{access.Subscribe, "all", "xs--" + "xs--ann_5F40example.com"}.check(t, g, thief), "its own")
}

func sharedNotes(channel string) string {
	rest, _ := strings.CutPrefix(channel, "notes:")
	if rest == "global" || strings.HasPrefix(rest, "topic:") {
		return rest
	}
	return ""
}

// TestChannelsOfNoUser: the name of a user doesn't stand for a part of the name of a channel that belongs to no user.
func TestChannelsOfNoUser(t *testing.T) {
	t.Parallel()
	g := newGuard(t, access.Options{
		Shared: sharedNotes,
		Rules: []access.ChannelRule{
			{Pattern: `notes:(?P<user>.+)`, Readers: []string{"${user}"}, Writers: []string{"${user}", "chief"}},
		},
	})
	parts := newGuard(t, access.Options{Shared: sharedNotes, Rules: []access.ChannelRule{
		{Pattern: `((?P<app>[^:]+):(?P<user>[^:]+))(:(?P<id>.*))?`, Readers: []string{"${user}", "$0", "$1"},
			Writers: []string{"${user}", "$0", "$1", "${id}", "${app}-chief"}},
	}})
	const grants = `[{"actions":["publish","describe"],"channels":["notes:{sub}","notes:{sub}:*","*:{sub}:*","x:{sub}",
			"{sub}","{sub}:*","*{sub}"]},
		{"actions":["publish"],"channels":["notes:topic:{sub}"]}]`
	for _, action := range []access.Action{access.Publish, access.Describe} {
		for subject, channel := range map[string]string{
			"global": "notes:global", "topic:5": "notes:topic:5", "topic": "notes:topic:5",
		} {
			require.ErrorIs(t, on{action, channel, ""}.check(t, g, user(t, subject, grants)), access.ErrNotGranted, channel)
			require.ErrorIs(t, on{action, channel, ""}.check(t, parts, user(t, subject, "[]")), access.ErrNotGranted, channel)
			require.NoError(t, on{action, "x:" + subject, ""}.check(t, g, user(t, subject, grants)))
		}
		for subject, channel := range map[string]string{
			"notes:global": "notes:global", "notes:topic:5": "notes:topic:5", "notes:topic": "notes:topic:5",
			"tes:global": "notes:global",
		} {
			require.ErrorIs(t, on{action, channel, ""}.check(t, g, user(t, subject, grants)), access.ErrNotGranted, subject)
			require.ErrorIs(t, on{action, channel, ""}.check(t, parts, user(t, subject, "[]")), access.ErrNotGranted, subject)
		}
		for subject, name := range map[string]string{
			"ann": "ann", "auth0|1": "xs--auth0_7C1", "topic:5|": "xs--topic_3A5_7C",
		} {
			require.NoError(t, on{action, "notes:" + name, ""}.check(t, g, user(t, subject, grants)))
			require.NoError(t, on{action, "notes:" + name, ""}.check(t, g, user(t, subject, "[]")), "by the rule")
			require.NoError(t, on{action, "notes:" + name + ":phone", ""}.check(t, g, user(t, subject, grants)))
		}
	}
	require.NoError(t, on{access.Publish, "notes:topic:5", ""}.check(t, g, user(t, "5", grants)), "its own topic")
	require.NoError(t, on{access.Publish, "notes:topic:5", ""}.check(t, parts, user(t, "5", "[]")), "by the rule")
	require.NoError(t, on{access.Publish, "notes:topic:5", ""}.check(t, parts, user(t, "notes-chief", "[]")))
	require.NoError(t, on{access.Publish, "notes:ann", ""}.check(t, parts, user(t, "ann", "[]")))
	require.NoError(t, on{access.Publish, "notes:global", ""}.check(t, g, user(t, "chief", "[]")))
	require.NoError(t, on{access.Publish, "notes:global", ""}.check(t, g,
		user(t, "global", `[{"actions":["publish"],"channels":["notes:global"]}]`)), "the grant names it")
}

func TestBadRules(t *testing.T) {
	t.Parallel()
	many := make([]string, access.MaxPatterns+1)
	tests := []struct {
		rule access.ChannelRule
		want string
	}{
		{access.ChannelRule{}, "channels[0].pattern: is empty"},
		{access.ChannelRule{Pattern: "("}, "channels[0].pattern: error parsing regexp"},
		{access.ChannelRule{Pattern: "a", Readers: []string{"$1"}},
			`channels[0].readers[0]: "$1" names a capture that the pattern doesn't have`},
		{access.ChannelRule{Pattern: "a", Writers: []string{"*", "${x}"}},
			`channels[0].writers[1]: "${x}" names a capture`},
		{access.ChannelRule{Pattern: "a", Writers: []string{""}}, "channels[0].writers[0]: is empty"},
		{access.ChannelRule{Pattern: "a", Writers: []string{strings.Repeat("a", 257)}},
			"channels[0].writers[0]: has 257 bytes, at most 256"},
		{access.ChannelRule{Pattern: "a", Readers: []string{".*"}},
			`channels[0].readers[0]: ".*" is a regular expression: write "*" for everybody with a credential`},
		{access.ChannelRule{Pattern: "inbox[.](?P<user>.*)", Writers: []string{"${user}", "{user}"}},
			`channels[0].writers[1]: "{user}" has {user}, as grants do: a reader or writer is a subject, and ${user} in it`},
		{access.ChannelRule{Pattern: "a", Readers: many}, "channels[0].readers: 65 patterns, at most 64"},
	}
	for _, tt := range tests {
		_, err := access.New(access.Options{Rules: []access.ChannelRule{tt.rule}})
		require.ErrorContains(t, err, tt.want)
		_, err = access.CompileRules([]access.ChannelRule{tt.rule})
		require.ErrorContains(t, err, tt.want)
	}
}

// TestOpen: a nil guard allows everything.
func TestOpen(t *testing.T) {
	t.Parallel()
	var g *access.Guard
	require.True(t, g.IsCheap("anything"))
	p, err := g.Authenticate(t.Context(), "anything")
	require.NoError(t, err)
	require.Nil(t, p)
	require.NoError(t, on{access.Publish, "c", ""}.check(t, g, p))
	require.True(t, g.QueryToken("c"))
	held, stop := g.Hold(t.Context(), p)
	require.Equal(t, t.Context(), held)
	stop()

	require.ErrorIs(t, on{access.Publish, "c", ""}.check(t, newGuard(t, access.Options{}), nil), access.ErrNoCredential,
		"but a closed one nothing to nobody")
}

// TestTicketsNeedNames: without them no channel would be a ticket's, or each.
func TestTicketsNeedNames(t *testing.T) {
	t.Parallel()
	for _, tickets := range []access.Tickets{
		{Owners: owners{}}, {Owners: owners{}, Channels: "ticket."}, {Owners: owners{}, Subscriber: "player"},
	} {
		_, err := access.New(access.Options{Tickets: tickets})
		require.Error(t, err)
	}
}
