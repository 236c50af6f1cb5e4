package queues

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/queuetest"
)

// TestQueueOperationsAreFewCommands checks the number of commands that each operation sends, and the maximum that its
// scripts run. A ticket of a match of two costs a create and half of an assign, and its share of a claim and of the
// changes.
func TestQueueOperationsAreFewCommands(t *testing.T) {
	t.Parallel()
	m := storetest.NewMeter(t, redistest.Options{})
	h := newHall(t, m.Conn, m.Node.Client())
	tickets := storagetest.Numbered("t", 38)
	h.Add(t, tickets...)
	limited := h.Request("limited")
	limited.MaxTickets = 1000
	quiet := h.Request("quiet")
	quiet.NoChannel = true
	h.AddQuiet(t, "quiet1", "quiet2")
	backfill := h.Backfill(t, queuetest.LongTTL)
	f := h.follow("0-0", 100)
	readOn := func(ctx context.Context) error { return storagetest.ErrorOf(f.Next(ctx, 0)) }
	require.NoError(t, h.Lead(t.Context(), "token", queuetest.LongTTL))
	token := h.ClaimToken()
	claim := func(token string, limit int, ids ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			return storagetest.ErrorOf(h.Claim(ctx, matchmaking.ClaimRequest{
				Queue: h.Name, Token: token, Hold: queuetest.LongHold, Fence: h.Fence, Limit: limit, IDs: ids,
			}))
		}
	}
	assign := func(matches ...matchmaking.AssignMatch) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, o := range h.AssignMatches(ctx, token, matches...) {
				if o.Err != nil {
					return o.Err
				}
			}
			return nil
		}
	}
	for _, op := range []struct {
		name        string
		sent        []string // the commands
		maxCommands int      // commands that the scripts run
		do          func(ctx context.Context) error
	}{
		{"campaign", []string{"EVALSHA"}, 4,
			func(ctx context.Context) error { return h.Lead(ctx, "token", queuetest.LongTTL) }},
		{"lease", []string{"EVALSHA"}, 3, func(ctx context.Context) error { return h.KeepLease(ctx, "token") }},
		{"create", []string{"EVALSHA"}, 11,
			func(ctx context.Context) error { return storagetest.ErrorOf2(h.Create(ctx, h.Request("new"))) }},
		{"create without a channel", []string{"EVALSHA"}, 9,
			func(ctx context.Context) error { return storagetest.ErrorOf2(h.Create(ctx, quiet)) }},
		{"create again", []string{"EVALSHA"}, 7,
			func(ctx context.Context) error { return storagetest.ErrorOf2(h.Create(ctx, h.Request("new"))) }},
		{"create with a limit", []string{"EVALSHA"}, 12,
			func(ctx context.Context) error { return storagetest.ErrorOf2(h.Create(ctx, limited)) }},
		{"ticket", []string{"EVALSHA"}, 4,
			func(ctx context.Context) error { return storagetest.ErrorOf(h.Ticket(ctx, h.Name, "new")) }},
		{"states", []string{"EVALSHA"}, 8, func(ctx context.Context) error {
			return storagetest.ErrorOf(h.States(ctx, h.Name, append(tickets, "nobody", "x")))
		}},
		{"changes", []string{"EVALSHA"}, 3, readOn},
		{"changes that were notified", nil, 0, func(ctx context.Context) error {
			f.inbox.Confirmed()
			f.inbox.TakeAll()
			at := entryIDOf(f.request.After)
			next := fmt.Sprintf("%d-%d", at.Ms, at.Number+1)
			f.inbox.Add(next + " " + next + "/a a 0 -1 ")
			return storagetest.ErrorOf(f.Next(ctx, time.Minute))
		}},
		{"claim", []string{"EVALSHA"}, 10, claim(token, 0, append(tickets, "quiet1", "quiet2")...)},
		{"claim of the oldest", []string{"EVALSHA"}, 10, claim("other", 2)},
		{"assign", []string{"EVALSHA"}, 27, assign(h.Match("m1", tickets[0], tickets[1]))},
		{"assign again", []string{"EVALSHA"}, 6, assign(h.Match("m1", tickets[0], tickets[1]))},
		{"assign three", []string{"EVALSHA"}, 41, assign(
			h.Match("m2", tickets[2], tickets[3]), h.Match("m3", tickets[4], tickets[5]),
			h.Match("m4", tickets[6], tickets[7]),
		)},
		{"assign without channels", []string{"EVALSHA"}, 21, assign(h.Match("m6", "quiet1", "quiet2"))},
		{"assign with conflicts", []string{"EVALSHA"}, 9, assign(h.Match("m5", tickets[0], tickets[8]))},
		{"take over", []string{"EVALSHA"}, 4, func(ctx context.Context) error {
			return storagetest.ErrorOf(h.TakeOver(ctx, h.Name, h.Fence, tickets))
		}},
		{"release", []string{"EVALSHA"}, 5,
			func(ctx context.Context) error { return h.Release(ctx, h.Name, token, tickets) }},
		{"renew", []string{"EVALSHA"}, 12,
			func(ctx context.Context) error { return h.Renew(ctx, h.Name, tickets[10:13]) }},
		{"cancel", []string{"EVALSHA"}, 18, func(ctx context.Context) error { return h.CancelID(ctx, "new") }},
		{"cancel again", []string{"EVALSHA"}, 4, func(ctx context.Context) error { return h.CancelID(ctx, "new") }},
		{"undo", []string{"EVALSHA"}, 14, func(ctx context.Context) error {
			return storagetest.ErrorOf(h.Undo(ctx, h.Name, limited.ID, limited.Attempt))
		}},
		{"vacate", []string{"EVALSHA"}, 3, func(ctx context.Context) error {
			return storagetest.ErrorOf(h.Vacate(ctx, h.Name, "nobody", ulid.Make()))
		}},
		{"sweep", []string{"EVALSHA"}, 3,
			func(ctx context.Context) error { return storagetest.ErrorOf(h.Sweep(ctx, h.Name, tickets, 100)) }},
		{"snapshot", []string{"EVALSHA", "EVALSHA"}, 7, func(ctx context.Context) error {
			return storagetest.ErrorOf(
				h.Snapshot(ctx, matchmaking.WaitingRequest{Queue: h.Name, Fields: matchmaking.FieldsAll}))
		}},
		{"outgoing", []string{"EVALSHA"}, 2,
			func(ctx context.Context) error { return storagetest.ErrorOf(h.Outgoing(ctx, h.Name, 0, 100)) }},
		{"delivered", []string{"XDEL"}, 1,
			func(ctx context.Context) error { return h.Delivered(ctx, h.Name, []string{"1-1", "1-2"}) }},
		{"describe", []string{"EVALSHA"}, 8,
			func(ctx context.Context) error { return storagetest.ErrorOf(h.Describe(ctx, h.Name, 10)) }},
		{"count", []string{"EVALSHA"}, 7,
			func(ctx context.Context) error { return storagetest.ErrorOf(h.Describe(ctx, h.Name, 0)) }},
		{"hand out", []string{"EVALSHA"}, 9, func(ctx context.Context) error {
			return h.HandOut(ctx, h.HandOutRequest(queuetest.Tickets(tickets[20:22]...)))[0].Err
		}},
		{"hand out with a backfill", []string{"EVALSHA"}, 12, func(ctx context.Context) error {
			return h.HandOut(ctx, h.HandOutRequest(queuetest.For(&backfill, tickets[22:24]...)))[0].Err
		}},
		{"acknowledge and assign", []string{"EVALSHA", "EVALSHA"}, 36, func(ctx context.Context) error {
			return storagetest.ErrorOf(h.AcknowledgeBackfill(ctx, h.AcknowledgeRequest(backfill.ID)))
		}},
		{"acknowledge", []string{"EVALSHA"}, 8, func(ctx context.Context) error {
			return storagetest.ErrorOf(h.AcknowledgeBackfill(ctx, h.AcknowledgeRequest(backfill.ID)))
		}},
		{"update a backfill", []string{"EVALSHA"}, 7, func(ctx context.Context) error {
			r := matchmaking.UpdateBackfillRequest{Queue: h.Name, ID: backfill.ID, Attempt: "a"}
			return storagetest.ErrorOf(h.UpdateBackfill(ctx, r))
		}},
		{"read a backfill", []string{"EVALSHA"}, 4, func(ctx context.Context) error {
			return storagetest.ErrorOf(h.Store.Backfill(ctx, h.Name, backfill.ID))
		}},
		{"release what was handed out", []string{"EVALSHA"}, 10,
			func(ctx context.Context) error { return h.ReleaseFetched(ctx, h.Name, tickets[20:22]) }},
		{"expire no backfill", []string{"EVALSHA"}, 3,
			func(ctx context.Context) error { return storagetest.ErrorOf(h.ExpireBackfills(ctx, h.Name, 100)) }},
		{"delete a backfill", []string{"EVALSHA"}, 8,
			func(ctx context.Context) error { return h.DeleteBackfills(ctx, h.Name, []string{backfill.ID, "other"}) }},
		{"resign", []string{"EVALSHA"}, 4, func(ctx context.Context) error { return h.Resign(ctx, "token") }},
	} {
		m.Reset(t)
		before := m.Tap.Count()
		require.NoError(t, op.do(t.Context()), op.name)
		var sent []string
		for _, command := range m.Tap.Sent(before) {
			sent = append(sent, command[0])
		}
		require.Equal(t, op.sent, sent, op.name)
		inside := m.Inside(t)
		require.LessOrEqual(t, inside, op.maxCommands, "%s: %v", op.name, m.Stats(t))
		t.Logf("%s: %d", op.name, inside)
	}
}
