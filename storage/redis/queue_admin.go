package redis

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Describe runs queue.lua.
func (q *Queues) Describe(ctx context.Context, queue string, matches int) (matchmaking.QueueState, error) {
	k := q.keys(queue)
	keys := []string{k.waiting(), k.expiries(), k.proposed(), k.outbox(), k.matched(), k.stats()}
	rep, err := q.store.exec(ctx, queueScript, keys, []string{strconv.Itoa(matches)})
	if err != nil {
		return matchmaking.QueueState{}, err
	}
	return rep.queueState()
}

// queueState decodes what queue.lua returns.
func (r reply) queueState() (matchmaking.QueueState, error) {
	if r.status != statusOK {
		return matchmaking.QueueState{}, r.refusal()
	}
	d := r.decoder()
	state := matchmaking.QueueState{Now: d.micros()}
	alive, held := d.int64(), d.int64()
	state.Pending = int(min(held, alive))
	state.Searching = int(alive) - state.Pending
	state.Outgoing = int(d.int64())
	if oldest := d.text(); oldest != "" {
		us, err := strconv.ParseInt(oldest, 10, 64)
		d.fail(err)
		state.OldestWait = max(state.Now.Sub(time.UnixMicro(us)), 0)
	}
	counts := d.list()
	state.Matched, state.Cancelled, state.Expired, state.Conflicts = counts.int64(), counts.int64(), counts.int64(), counts.int64()
	d.fail(counts.end())
	matches := d.list()
	for len(matches.values) > 0 && matches.err == nil {
		state.Recent = append(state.Recent, matches.recentMatch())
	}
	d.fail(matches.err)
	if err := d.end(); err != nil {
		return matchmaking.QueueState{}, err
	}
	slices.Reverse(state.Recent)
	return state, nil
}

func (d *decoder) recentMatch() matchmaking.RecentMatch {
	id, fields := d.entry()
	at, err := entryTime(id)
	d.fail(err)
	m := matchmaking.RecentMatch{At: at}
	for text := range strings.FieldsSeq(fields["waits"]) {
		us, err := strconv.ParseInt(text, 10, 64)
		d.fail(err)
		m.Waits = append(m.Waits, time.Duration(us)*time.Microsecond)
	}
	return m
}

// Definitions reads the hash of definitions.
func (q *Queues) Definitions(ctx context.Context) (map[string][]byte, error) {
	c := q.store.client
	definitions := map[string][]byte{}
	err := q.store.retry(ctx, "definitions", func(ctx context.Context) error {
		found, err := c.Do(ctx, c.B().Hgetall().Key(q.store.keys.definitions()).Build()).AsStrMap()
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

// PutDefinition runs define.lua. A repeat finds the definition there.
func (q *Queues) PutDefinition(ctx context.Context, r matchmaking.PutRequest) (bool, error) {
	args := []string{r.Queue, string(r.Definition), strconv.Itoa(r.Most)}
	rep, err := q.store.exec(ctx, defineScript, []string{q.store.keys.definitions()}, args)
	if err != nil {
		return false, err
	}
	if rep.status == statusFull {
		return false, matchmaking.ErrTooManyQueues
	}
	return rep.status == statusCreated, rep.oneOf(statusCreated, statusOK)
}

// DeleteDefinition removes a field of the hash of definitions.
func (q *Queues) DeleteDefinition(ctx context.Context, queue string) error {
	c := q.store.client
	return q.store.retry(ctx, "delete definition", func(ctx context.Context) error {
		return c.Do(ctx, c.B().Hdel().Key(q.store.keys.definitions()).Field(queue).Build()).Error()
	})
}
