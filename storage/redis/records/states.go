package records

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/internal/records"
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

// Patch implements records.StateStore.
func (s *states) Patch(ctx context.Context, p records.StatePatch) (records.State, error) {
	replace := "0"
	if p.Replace {
		replace = "1"
	}
	args := []string{
		redis.Milliseconds(p.TTL), replace, strconv.Itoa(records.MaxStateFields), strconv.Itoa(records.MaxStateBytes),
		strconv.Itoa(len(p.Set)),
	}
	for field, value := range p.Set {
		args = append(args, field, value)
	}
	return s.run(ctx, patchScript, p.Process, p.ID, append(args, p.Delete...)...)
}

// Get implements records.StateStore.
func (s *states) Get(ctx context.Context, process, id string) (records.State, error) {
	return s.run(ctx, stateScript, process, id)
}

// run runs a script that returns a state.
func (s *states) run(ctx context.Context, script *lua.Script, process, id string, args ...string) (records.State,
	error) {
	reply, err := s.conn.Run(ctx, script, []string{key(s.conn, records.StateKind, process, id)}, args)
	if err != nil {
		return records.State{}, fmt.Errorf("state: %w", err)
	}
	if reply.Status != redis.OK {
		return records.State{}, counterRefusals.Error(reply)
	}
	d := reply.Decoder()
	state := records.State{Process: process, ID: id, Fields: map[string]string{}}
	if ends := d.Int64(); ends > 0 {
		state.Expires = time.UnixMilli(ends).UTC()
	}
	d.Each(func(field *redis.Decoder) { state.Fields[field.Text()] = field.Text() })
	return state, d.End()
}

// Delete implements records.StateStore.
func (s *states) Delete(ctx context.Context, process, id string) error {
	c := s.conn.Client()
	return s.conn.Retry(ctx, "delete a state", func(ctx context.Context) error {
		return c.Do(ctx, c.B().Del().Key(key(s.conn, records.StateKind, process, id)).Build()).Error()
	})
}
