package queues

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
)

// made returns the results of the functions of keys.go for the page's placeholders.
func made(prefix string) map[string]string {
	k := keysOf(prefix, "q")
	return map[string]string{
		"definitionsKey": definitionsKey(prefix), "waiting": k.waiting(), "expiries": k.expiries(),
		"proposed": k.proposed(),
		"claims":   k.claims(), "changes": k.changes(), "outbox": k.outbox(), "matched": k.matched(),
		"stats":    k.stats(),
		"director": k.director(), "nudges": k.nudges(), "ticket": k.ticket("<id>"), "assignment": k.assignment("<id>"),
		"match": k.match("<match>"), "assigned": k.assigned(), "feed": k.feed(),
		"listening": k.listening(), "backfills": k.backfills(), "backfill": k.backfill("<id>"),
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	scripts, rows := luatest.Scripts(t, "queues"), storetest.KeyRows(t, "queues", "## Keys")
	storetest.RequireDocumented(t, made(""), rows)
	storetest.RequireScripts(t, "queues", scripts)
	storetest.RequireUses(t, rows, scripts, map[string][]string{
		"waiting": {"mm.{q}.allTickets"}, "expiries": {"mm.{q}.expiries"}, "proposed": {"mm.{q}.proposed_ticket_ids"},
		"claims": {"mm.{q}.claims"}, "changes": {"mm.{q}.changes"}, "outbox": {"mm.{q}.outbox"},
		"matched": {"mm.{q}.matched"},
		"stats":   {"mm.{q}.stats"}, "director": {"mm.{q}.director"}, "nudges": {"mm.{q}"},
		"assigned": {"mm.{q}.assigned"}, "feed": {"mm.{q}.feed"}, "queues": {"mm.queues"},
		"listening": {"mm.{q}.listening"},
		"backfills": {"mm.{q}.backfills"}, "backfill": {"mm.{q}.backfill.<id>"}, "backfill_keys": {"mm.{q}.backfill.<id>"},
		"match":      {"mm.{q}.match.<match>"},
		"match_keys": {"mm.{q}.match.<match>", "mm.{q}.ticket.<id>", "mm.{q}.assign.<id>"},
		"ticket":     {"mm.{q}.ticket.<id>"}, "tickets": {"mm.{q}.ticket.<id>"},
		"assignment": {"mm.{q}.assign.<id>"}, "ticket_keys": {"mm.{q}.ticket.<id>", "mm.{q}.assign.<id>"},
	}, "delivered", "dropped", "match", "admin", "watch", "listen", "confirmed", "lease-acquire",
		"lease-renew", "lease-release", "follow")
	for name, key := range made("") {
		require.Equal(t, "mm1:"+key, made("mm1:")[name], name)
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	scripts := luatest.Scripts(t, "queues")
	storetest.RequireStatuses(t, "store.go", scripts, "HELD") // by leases.Granted
	named := map[string]string{"campaign": "Acquire", "queue": "Describe", "define": "PutDefinition",
		"takeover": "TakeOver", "snapshot": "Each", "contents": "First", "open": "Reserve", "handout": "HandOut",
		"free": "ReleaseFetched", "newbackfill": "CreateBackfill", "setbackfill": "UpdateBackfill",
		"delbackfill": "removeBackfills", "backfill": "readBackfills", "backfills": "backfillPage",
		"prolong": "AcknowledgeBackfill", "acknowledge": "assignAcknowledged"}
	open := slices.DeleteFunc(luatest.Scripts(t, "channels"), func(f luatest.File) bool { return f.Stem() != "open" })
	storetest.RequireOneCaller(t, append(scripts, open...), named) // open.lua's effects are tested with the channels
}
