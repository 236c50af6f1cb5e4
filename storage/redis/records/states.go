package records

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/counters"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// The scripts of states.
var (
	patchScript = lua.Must("records/patch_state")
	stateScript = lua.Must("records/state")
)

// states keeps states in Redis.
type states struct{ conn *redis.Conn }

// Patch implements counters.StateStore.
func (s *states) Patch(ctx context.Context, p counters.Patch) (counters.State, error) {
	replace := "0"
	if p.Replace {
		replace = "1"
	}
	args := []string{
		redis.Milliseconds(p.TTL), replace, strconv.Itoa(counters.MaxStateFields), strconv.Itoa(counters.MaxStateBytes),
		strconv.Itoa(len(p.Set)),
	}
	for field, value := range p.Set {
		args = append(args, field, value)
	}
	return s.run(ctx, patchScript, p.Process, p.ID, append(args, p.Delete...)...)
}

// Get implements counters.StateStore.
func (s *states) Get(ctx context.Context, process, id string) (counters.State, error) {
	return s.run(ctx, stateScript, process, id)
}

// run runs a script that returns a state.
func (s *states) run(ctx context.Context, script *lua.Script, process, id string, args ...string) (counters.State,
	error) {
	reply, err := s.conn.Run(ctx, script, []string{key(s.conn, records.State, process, id)}, args)
	if err != nil {
		return counters.State{}, fmt.Errorf("state: %w", err)
	}
	if reply.Status != redis.OK {
		return counters.State{}, counterRefusals.Error(reply)
	}
	d := reply.Decoder()
	state := counters.State{Process: process, ID: id, Fields: map[string]string{}}
	if ends := d.Int64(); ends > 0 {
		state.Expires = time.UnixMilli(ends).UTC()
	}
	d.Each(func(field *redis.Decoder) { state.Fields[field.Text()] = field.Text() })
	return state, d.End()
}

// Delete implements counters.StateStore.
func (s *states) Delete(ctx context.Context, process, id string) error {
	c := s.conn.Client()
	return s.conn.Retry(ctx, "delete a state", func(ctx context.Context) error {
		return c.Do(ctx, c.B().Del().Key(key(s.conn, records.State, process, id)).Build()).Error()
	})
}
