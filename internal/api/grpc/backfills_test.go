package grpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// backfills are backfills controlled by the test.
type backfills struct {
	mu       sync.Mutex
	fail     error // of all calls; nil: they succeed
	all      []*matchmaking.Backfill
	assigned matchmaking.Allocation
	tickets  []matchmaking.Ticket // of the next acknowledgement
}

func (b *backfills) do(id string, change func(*matchmaking.Backfill)) (matchmaking.Backfill, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return matchmaking.Backfill{}, b.fail
	}
	for _, stored := range b.all {
		if stored.ID == id {
			change(stored)
			return *stored, nil
		}
	}
	return matchmaking.Backfill{}, matchmaking.ErrNoBackfill
}

func (b *backfills) CreateBackfill(_ context.Context, n service.NewBackfill) (matchmaking.Backfill, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	created := &matchmaking.Backfill{
		ID: fmt.Sprintf("b%d.%s", len(b.all), n.Queue), Queue: n.Queue, BackfillSpec: n.Spec,
		CreateTime: time.Now().UTC().Truncate(time.Microsecond), Generation: 1,
	}
	b.all = append(b.all, created)
	return *created, b.fail
}

func (b *backfills) Backfill(_ context.Context, id string) (matchmaking.Backfill, error) {
	return b.do(id, func(*matchmaking.Backfill) {})
}

func (b *backfills) UpdateBackfill(
	_ context.Context, id string, spec matchmaking.BackfillSpec,
) (matchmaking.Backfill, error) {
	return b.do(id, func(stored *matchmaking.Backfill) {
		spec.PersistentField = stored.PersistentField
		stored.BackfillSpec = spec
		stored.Generation++
	})
}

func (b *backfills) DeleteBackfill(_ context.Context, id string) error {
	_, err := b.do(id, func(stored *matchmaking.Backfill) { stored.ID = "gone" })
	if errors.Is(err, matchmaking.ErrNoBackfill) {
		return nil
	}
	return err
}

func (b *backfills) AcknowledgeBackfill(
	_ context.Context, id string, a matchmaking.Allocation,
) (done matchmaking.Acknowledged, err error) {
	done.Backfill, err = b.do(id, func(*matchmaking.Backfill) { b.assigned, done.Tickets = a, b.tickets })
	return done, err
}

func (b *backfills) EachBackfill(_ context.Context, _ string, each func([]*matchmaking.Backfill) error) error {
	return each(b.all)
}

// TestBackfills: what a client sends comes back, with the service's own fields, over every protocol.
func TestBackfills(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, p := range servertest.Protocols {
		f := h.frontend(p)
		sent := &openmatch.Backfill{
			Id: "mine", Generation: 42, SearchFields: &openmatch.SearchFields{Tags: []string{"eu"}},
			Extensions:      map[string]*anypb.Any{"x": packed(t, structpb.NewNumberValue(1))},
			PersistentField: map[string]*anypb.Any{"p": packed(t, structpb.NewNumberValue(2))},
		}
		created, err := f.CreateBackfill(h.inQueue("q"), &openmatch.CreateBackfillRequest{Backfill: sent})
		require.NoError(t, err)
		sent.Id, sent.Generation, sent.CreateTime = created.GetId(), 1, created.GetCreateTime()
		require.True(t, proto.Equal(sent, created), "%v", created)
		require.True(t, strings.HasSuffix(created.GetId(), ".q"))
		got, err := f.GetBackfill(t.Context(), &openmatch.GetBackfillRequest{BackfillId: created.GetId()})
		require.NoError(t, err)
		require.True(t, proto.Equal(created, got), "%v", got)

		changed := &openmatch.Backfill{
			Id: created.GetId(), Generation: 42,
			PersistentField: map[string]*anypb.Any{"p": packed(t, structpb.NewNumberValue(3))},
		}
		updated, err := f.UpdateBackfill(t.Context(), &openmatch.UpdateBackfillRequest{Backfill: changed})
		require.NoError(t, err)
		changed.Generation, changed.CreateTime = 2, created.GetCreateTime()
		changed.PersistentField = sent.GetPersistentField()
		require.True(t, proto.Equal(changed, updated), "%v", updated)

		h.matches.backfills.tickets = []matchmaking.Ticket{{ID: "t", Assignment: &matchmaking.Assignment{Connection: "h:1"}}}
		done, err := f.AcknowledgeBackfill(t.Context(), &openmatch.AcknowledgeBackfillRequest{
			BackfillId: created.GetId(),
			Assignment: &openmatch.Assignment{Connection: "h:1", Extensions: sent.GetExtensions()},
		})
		require.NoError(t, err)
		require.True(t, proto.Equal(updated, done.GetBackfill()))
		require.Equal(t, "h:1", done.GetTickets()[0].GetAssignment().GetConnection())
		require.Equal(t, "h:1", h.matches.backfills.assigned.Connection)
		require.Contains(t, h.matches.backfills.assigned.Extensions, "x")
		for range 2 {
			_, err = f.DeleteBackfill(t.Context(), &openmatch.DeleteBackfillRequest{BackfillId: created.GetId()})
			require.NoError(t, err)
		}
	}
}

// TestRefusedBackfills checks the errors of Open Match.
func TestRefusedBackfills(t *testing.T) {
	t.Parallel()
	h := start(t)
	ctx, f, none := t.Context(), h.frontend(servertest.Native), "none.q"
	_, err := f.CreateBackfill(ctx, &openmatch.CreateBackfillRequest{})
	isError(t, err, codes.InvalidArgument, ".backfill is required")
	_, err = f.CreateBackfill(ctx, &openmatch.CreateBackfillRequest{Backfill: &openmatch.Backfill{CreateTime: timestamppb.Now()}})
	isError(t, err, codes.InvalidArgument, "backfills cannot be created with create time set")
	_, err = f.UpdateBackfill(ctx, &openmatch.UpdateBackfillRequest{})
	isError(t, err, codes.InvalidArgument, ".backfill is required")
	_, err = f.UpdateBackfill(ctx, &openmatch.UpdateBackfillRequest{Backfill: &openmatch.Backfill{}})
	isError(t, err, codes.InvalidArgument, "backfill ID should exist")
	_, err = f.AcknowledgeBackfill(ctx, &openmatch.AcknowledgeBackfillRequest{Assignment: &openmatch.Assignment{}})
	isError(t, err, codes.InvalidArgument, ".BackfillId is required")
	_, err = f.AcknowledgeBackfill(ctx, &openmatch.AcknowledgeBackfillRequest{BackfillId: none})
	isError(t, err, codes.InvalidArgument, ".Assignment is required")
	get := func() error {
		_, err := f.GetBackfill(ctx, &openmatch.GetBackfillRequest{BackfillId: none})
		return err
	}
	update := func() error {
		_, err := f.UpdateBackfill(ctx, &openmatch.UpdateBackfillRequest{Backfill: &openmatch.Backfill{Id: none}})
		return err
	}
	acknowledge := func() error {
		_, err := f.AcknowledgeBackfill(ctx, &openmatch.AcknowledgeBackfillRequest{
			BackfillId: none, Assignment: &openmatch.Assignment{},
		})
		return err
	}
	for _, call := range []func() error{get, update, acknowledge} {
		isError(t, call(), codes.NotFound, "Backfill id: none.q not found")
	}
	h.matches.backfills.fail = matchmaking.ErrBackfillExpired
	isError(t, update(), codes.FailedPrecondition, "can not update an expired backfill, id: none.q")
	isError(t, acknowledge(), codes.Unavailable, "can not acknowledge an expired backfill, id: none.q")
	h.matches.backfills.fail = matchmaking.ErrTooManyBackfills
	_, err = f.CreateBackfill(ctx, &openmatch.CreateBackfillRequest{Backfill: &openmatch.Backfill{}})
	isError(t, err, codes.Unavailable, matchmaking.ErrTooManyBackfills.Detail)
}

// TestQueryBackfills checks filters and pages.
func TestQueryBackfills(t *testing.T) {
	t.Parallel()
	h := start(t)
	for i := range 2500 {
		h.matches.backfills.all = append(h.matches.backfills.all, &matchmaking.Backfill{
			ID: fmt.Sprint("b", i), Generation: int64(i), CreateTime: time.Unix(int64(i), 0),
			BackfillSpec: matchmaking.BackfillSpec{SearchFields: matchmaking.SearchFields{
				DoubleArgs: matchmaking.Doubles{"free": float64(i % 5)},
			}},
		})
	}
	for _, c := range []struct {
		pool         *openmatch.Pool
		found, pages int
		first        string
	}{
		{&openmatch.Pool{}, 2500, 25, "b0"},
		{&openmatch.Pool{CreatedAfter: timestamppb.New(time.Unix(2400, 0))}, 99, 1, "b2401"},
		{&openmatch.Pool{DoubleRangeFilters: []*openmatch.DoubleRangeFilter{{DoubleArg: "free", Min: 3, Max: 4}}}, 1000, 10, "b3"},
		{&openmatch.Pool{TagPresentFilters: []*openmatch.TagPresentFilter{{Tag: "eu"}}}, 0, 0, ""},
	} {
		stream, err := h.query().QueryBackfills(h.inQueue("q"), &openmatch.QueryBackfillsRequest{Pool: c.pool})
		require.NoError(t, err)
		var found []*openmatch.Backfill
		pages := 0
		for {
			page, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			found, pages = append(found, page.GetBackfills()...), pages+1
		}
		require.Len(t, found, c.found)
		require.Equal(t, c.pages, pages)
		if c.found > 0 {
			require.Equal(t, c.first, found[0].GetId())
		}
	}
	stream, err := h.query().QueryBackfills(t.Context(), &openmatch.QueryBackfillsRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	isError(t, err, codes.InvalidArgument, ".pool is required")
}

// TestJSONOfBackfills checks Open Match's JSON paths.
func TestJSONOfBackfills(t *testing.T) {
	t.Parallel()
	h := start(t)
	const at = "/v1/frontendservice/backfills"
	created := h.answers(200, "POST", at, `{"backfill":{"search_fields":{"tags":["eu"]}}}`)
	id := created["id"].(string)
	require.Equal(t, "1", created["generation"])
	require.Equal(t, created, h.answers(200, "GET", at+"/"+id, ""))
	require.Equal(t, "2", h.answers(200, "PATCH", at, `{"backfill":{"id":"`+id+`"}}`)["generation"])
	done := h.answers(200, "POST", at+"/"+id+"/acknowledge", `{"assignment":{"connection":"h:1"}}`)
	require.Equal(t, id, done["backfill"].(map[string]any)["id"])
	require.Equal(t, "h:1", h.matches.backfills.assigned.Connection)
	found := h.answers(200, "POST", "/v1/queryservice/backfills:query", `{"pool":{}}`)
	require.Len(t, found["result"].(map[string]any)["backfills"], 1)
	require.Empty(t, h.answers(200, "DELETE", at+"/"+id, ""))
	require.Equal(t, "Backfill id: "+id+" not found", h.answers(404, "GET", at+"/"+id, "")["message"])
}
