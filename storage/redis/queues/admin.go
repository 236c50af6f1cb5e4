package queues

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var (
	queueScript  = lua.Must("queues/queue")
	defineScript = lua.Must("queues/define")
)

// Describe runs queue.lua. Published entries that wait for their removal are removed first.
func (s *Store) Describe(ctx context.Context, queue string, matches int) (matchmaking.QueueState, error) {
	if err := s.removeWaiting(ctx, queue); err != nil {
		return matchmaking.QueueState{}, err
	}
	k := s.keys(queue)
	keys := []string{k.waiting(), k.expiries(), k.proposed(), k.outbox(), k.matched(), k.stats(), k.backfills()}
	rep, err := s.conn.Run(ctx, queueScript, keys, []string{strconv.Itoa(matches)})
	if err != nil {
		return matchmaking.QueueState{}, err
	}
	return queueState(rep)
}

// queueState decodes the reply of queue.lua.
func queueState(r redis.Reply) (matchmaking.QueueState, error) {
	if r.Status != redis.OK {
		return matchmaking.QueueState{}, refusals.Error(r)
	}
	d := r.Decoder()
	state := matchmaking.QueueState{Now: d.Micros()}
	alive, held := d.Int64(), d.Int64()
	state.Pending = int(min(held, alive))
	state.Searching = int(alive) - state.Pending
	state.Backfills, state.Outgoing = int(d.Int64()), int(d.Int64())
	if oldest := d.Text(); oldest != "" {
		us, err := strconv.ParseInt(oldest, 10, 64)
		d.Fail(err)
		state.OldestWait = max(state.Now.Sub(time.UnixMicro(us)), 0)
	}
	counts := d.List()
	state.Matched, state.Cancelled, state.Expired, state.Conflicts = counts.Int64(), counts.Int64(), counts.Int64(),
		counts.Int64()
	d.Fail(counts.End())
	d.Each(func(list *redis.Decoder) { state.Recent = append(state.Recent, recentMatch(list)) })
	if err := d.End(); err != nil {
		return matchmaking.QueueState{}, err
	}
	slices.Reverse(state.Recent)
	return state, nil
}

func recentMatch(d *redis.Decoder) matchmaking.RecentMatch {
	id, fields := readEntry(d)
	at, err := timeOfEntry(id)
	d.Fail(err)
	m := matchmaking.RecentMatch{ID: fields["match"], At: at}
	for text := range strings.FieldsSeq(fields["waits"]) {
		us, err := strconv.ParseInt(text, 10, 64)
		d.Fail(err)
		m.Waits = append(m.Waits, time.Duration(us)*time.Microsecond)
	}
	return m
}

// Definitions reads the hash of definitions.
func (s *Store) Definitions(ctx context.Context) (map[string][]byte, error) {
	c := s.conn.Client()
	definitions := map[string][]byte{}
	err := s.conn.Retry(ctx, "definitions", func(ctx context.Context) error {
		found, err := c.Do(ctx, c.B().Hgetall().Key(definitionsKey(s.conn.Prefix())).Build()).AsStrMap()
		for queue, text := range found {
			definitions[queue] = []byte(text)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return definitions, nil
}

// PutDefinition runs define.lua. A repetition finds the stored definition.
func (s *Store) PutDefinition(ctx context.Context, r matchmaking.PutRequest) (bool, error) {
	args := []string{r.Queue, string(r.Definition), strconv.Itoa(r.Max)}
	rep, err := s.conn.Run(ctx, defineScript, []string{definitionsKey(s.conn.Prefix())}, args)
	if err != nil {
		return false, err
	}
	if rep.Status == statusFull {
		return false, matchmaking.ErrTooManyQueues
	}
	return rep.Status == statusCreated, refusals.Check(rep, statusCreated, redis.OK)
}

// DeleteDefinition removes a field of the hash of definitions.
func (s *Store) DeleteDefinition(ctx context.Context, queue string) error {
	c := s.conn.Client()
	return s.conn.Retry(ctx, "delete definition", func(ctx context.Context) error {
		return c.Do(ctx, c.B().Hdel().Key(definitionsKey(s.conn.Prefix())).Field(queue).Build()).Error()
	})
}
