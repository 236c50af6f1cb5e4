package channels

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// A Redis that loads its data is unavailable for a moment.
func TestFailureLoading(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{Args: []string{
		"--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024", // 10 ms a key
	}})
	registry := prometheus.NewRegistry()
	s := open(t, redis.Options{URL: n.URL(), Timeout: time.Minute, Metrics: registry})
	lore{messages: 3}.make(t, s, n.Client(), "x")
	require.NoError(t, n.Do(t, "DEBUG", "POPULATE", "5000", "ballast", "2000").Error())
	require.NoError(t, n.Do(t, "SAVE").Error())
	n.Kill(t)

	published, opened := make(chan error), make(chan error)
	go func() { published <- storagetest.ErrorOf(s.Publish(t.Context(), publishOf("x", "new"))) }()
	go func() {
		other, err := redis.Connect(t.Context(), redis.Options{URL: n.URL(), Logger: s.conn.Logger()})
		if err == nil {
			other.Close()
		}
		opened <- err
	}()
	go func() { // while Restart waits for the end of loading
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for label(registry, "tidemark_redis_retries_total", "LOADING") == 0 && t.Context().Err() == nil {
			<-tick.C
		}
		n.Client().Do(t.Context(), n.Client().B().ConfigSet().ParameterValue().ParameterValue("key-load-delay",
			"0").Build())
	}()
	n.Restart(t)
	require.NoError(t, <-published)
	require.NoError(t, <-opened)
	requireWhole(t, s, n.Client(), "x", 4)
}

// label returns a counter's value for one label.
func label(registry *prometheus.Registry, name, value string) float64 {
	families, _ := registry.Gather()
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == value {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// While Redis refuses writes, since it is a replica or has too few replicas, channels can be read. The state is
// temporary, so the error says to try again, and a call that is being retried succeeds afterwards.
func TestFailureReadOnly(t *testing.T) {
	t.Parallel()
	for code, commands := range map[string]struct{ refuse, accept []string }{
		"READONLY": {[]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
		"NOREPLICAS": {[]string{"CONFIG", "SET", "min-replicas-to-write", "1"},
			[]string{"CONFIG", "SET", "min-replicas-to-write", "0"}},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			n := redistest.Start(t, redistest.Options{})
			registry := prometheus.NewRegistry()
			s := open(t, redis.Options{URL: n.URL(), Metrics: registry, Timeout: time.Minute})
			lore{messages: 3}.make(t, s, n.Client(), "x")
			all := calls(t, s, "x")
			require.NoError(t, n.Do(t, commands.refuse...).Error())
			before := storetest.Dump(t, n)
			reads := []string{"fetch", "poll", "fetch together", "position", "inspect"}
			storetest.RequireEach(t.Context(), t, storetest.Only(all, reads...), storetest.RequireFine)
			storetest.RequireEach(storetest.Shortly(t), t, storetest.AllBut(all, reads...),
				storetest.RequireUnavailable)
			require.Equal(t, before, storetest.Dump(t, n))

			retried := label(registry, "tidemark_redis_retries_total", code)
			require.NotZero(t, retried)
			done := make(chan error)
			go func() { done <- storagetest.ErrorOf(s.Publish(t.Context(), publishOf("x", "p1"))) }()
			storetest.WaitFor(t, "the publish to be tried again", func() bool {
				return label(registry, "tidemark_redis_retries_total", code) > retried
			})
			require.NoError(t, n.Do(t, commands.accept...).Error())
			require.NoError(t, <-done)
			storetest.RequireEach(t.Context(), t, all, storetest.RequireFine)
		})
	}
}

// A publish that waits for replicas on a primary that stops being one is tried again.
func TestFailureDemotedWhileWaiting(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Options{})
	replica := redistest.StartReplica(t, primary)
	s := open(t, redis.Options{URL: primary.URL(), Timeout: time.Minute})
	replica.Pause(t)
	r := publishOf("x", "m1")
	r.Policy.Replicas = 1
	done := make(chan error)
	go func() { done <- storagetest.ErrorOf(s.Publish(t.Context(), r)) }()
	storetest.WaitFor(t, "the publish to wait for the replica", func() bool {
		return primary.Number(t, "clients", "blocked_clients") == 1
	})
	require.NoError(t, primary.Do(t, "REPLICAOF", "127.0.0.1", "1").Error())
	require.NoError(t, primary.Do(t, "REPLICAOF", "NO", "ONE").Error())
	replica.Resume(t)
	require.NoError(t, <-done)
	requireWhole(t, s, primary.Client(), "x", 1)
	require.Equal(t, "1", valueOf(t, replica, s.keys("x").Clock()))
}

// A full Redis accepts no message and no subscriber, not even in part, but it can be drained.
func TestFailureOutOfMemory(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := open(t, redis.Options{URL: n.URL()})
	for _, name := range []string{"x", "y"} {
		lore{messages: 3}.make(t, s, n.Client(), name)
	}
	all := calls(t, s, "x")
	require.NoError(t, storagetest.ErrorOf(s.ReceiptKeys(t.Context())))
	keyless := open(t, redis.Options{URL: n.URL(), KeyPrefix: "other:"})
	storetest.FillUp(t, n)
	before := storetest.Dump(t, n)
	full := []string{"publish", "publish a batch", "subscribe"}
	require.ErrorIs(t, storagetest.ErrorOf(keyless.ReceiptKeys(t.Context())), fault.ErrStorageFull)
	storetest.RequireEach(t.Context(), t, storetest.Only(all, full...), storetest.RequireFull)
	trimmed := publishOf("x", "p1")
	trimmed.Policy.MaxMessages = 1
	require.ErrorIs(t, storagetest.ErrorOf(s.Publish(t.Context(), trimmed)), fault.ErrStorageFull)
	require.ErrorIs(t, storagetest.ErrorOf(s.Publish(t.Context(), publishOf("new", "p1"))), fault.ErrStorageFull)
	require.Equal(t, before, storetest.Dump(t, n))
	storetest.RequireEach(t.Context(), t, storetest.AllBut(all, append(full, "ready")...), storetest.RequireFine)
	err := s.conn.Ready(t.Context())
	storetest.RequireUnavailable(t, err)
	require.ErrorContains(t, err, "OOM", "the answer names the cause")
	d, err := s.Describe(t.Context(), about("x", lore{}.policy()))
	require.NoError(t, err)
	require.Zero(t, d.Subscribers[0].Lag, "the acknowledgement counted")
	require.NoError(t, s.Unsubscribe(t.Context(), "y", reader, ulid.ULID{}))
	require.ErrorIs(t, storagetest.ErrorOf(s.Fetch(t.Context(), lore{}.fetch("y"))), channel.ErrNoSubscriber)

	require.NoError(t, n.Do(t, "DEL", "ballast").Error())
	storetest.RequireEach(t.Context(), t, all, storetest.RequireFine)
}

// If Redis's user may not run a command, that is an error, and nothing is written.
func TestFailureNotPermitted(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	lore{messages: 3}.make(t, open(t, redis.Options{URL: n.URL()}), n.Client(), "x")
	batch := publishOf("x", "b1")
	batch.Drafts = drafted("b1", "b2")
	trimmed, due := batch, batch
	due.Policy.TTL = 2 * batch.Policy.TTL // so that the life of the epoch and the subs must be renewed
	trimmed.Policy.MaxMessages = 2
	for rights, r := range map[string]channel.PublishRequest{ //nolint:paralleltest // they share a server
		"~* +@all resetchannels":           batch,
		"~* +@all &elsewhere":              batch,
		"~* +@all -spublish &*":            batch,
		"~* +@all -evalsha &*":             batch,
		"~* +@all -mget &*":                batch,
		"~* +@all -set &*":                 batch,
		"~* +@all -pexpireat &*":           due,
		"~* +@all -del &*":                 trimmed,
		"~c.{y}* %R~* ~tidemark* +@all &*": batch,
	} {
		t.Run(rights, func(t *testing.T) {
			user := append([]string{"ACL", "SETUSER", "limited", "reset", "on", ">secret"}, strings.Fields(rights)...)
			require.NoError(t, n.Do(t, user...).Error())
			s := open(t, redis.Options{URL: n.URL(), Username: "limited", Password: "secret", Timeout: time.Hour})
			before := storetest.Dump(t, n)
			err := storagetest.ErrorOf(s.Publish(t.Context(), r))
			storetest.RequireUnavailable(t, err)
			require.Regexp(t, "NOPERM|can't run this command|ACL failure|can't access", err.Error())
			require.Equal(t, storetest.Values(before), storetest.Values(storetest.Dump(t, n)))
			require.NoError(t, n.Do(t, "ACL", "SETUSER", "limited", "~*", "+@all", "&*").Error())
			require.NoError(t, s.conn.Ready(t.Context()))
			require.NoError(t, n.Do(t, "ACL", "SETUSER", "limited", "resetchannels").Error())
			storetest.RequireUnavailable(t, s.conn.Ready(t.Context()))
		})
	}
}

// A subscriber whose position a fail-over has given to another message receives an error, and its mark stays.
func TestFailureLostWrites(t *testing.T) {
	t.Parallel()
	s, n := openStandalone(t)
	lore{messages: 5}.make(t, s, n.Client(), "x")
	ctx, l, ch := t.Context(), lore{}, s.keys("x")
	b, err := s.Fetch(ctx, l.fetch("x"))
	require.NoError(t, err)
	require.Len(t, b.Messages, 5)
	old := channel.AckRequest{Receipt: receiptOf("x", b), Policy: l.policy()}

	// This simulates a new primary that never received the last three.
	require.NoError(t, n.Do(t, "SET", ch.Clock(), "2", "KEEPTTL").Error())
	for i := 3; i <= 5; i++ {
		id := "m" + strconv.Itoa(i)
		require.NoError(t, n.Do(t, "DEL", ch.MessagePrefix()+strconv.Itoa(i), ch.MessageID(id)).Error())
	}
	require.ErrorIs(t, s.Ack(ctx, old), channel.ErrReceiptAhead)
	require.ErrorIs(t, storagetest.ErrorOf(s.Next(ctx, old, l.fetch("x"))), channel.ErrReceiptAhead)
	require.NoError(t, publishAll(ctx, s, "x", "after", 4, func() {}))
	require.ErrorIs(t, s.Ack(ctx, old), channel.ErrReceiptSuperseded)
	require.ErrorIs(t, storagetest.ErrorOf(s.Next(ctx, old, l.fetch("x"))), channel.ErrReceiptSuperseded)

	b, err = s.Fetch(ctx, l.fetch("x"))
	require.NoError(t, err)
	require.EqualValues(t, 0, b.Mark)
	require.Len(t, b.Messages, 6)
	require.Equal(t, "after0", b.Messages[2].ID)
	require.NoError(t, s.Ack(context.WithoutCancel(ctx), channel.AckRequest{Receipt: receiptOf("x", b),
		Policy: l.policy()}))
}
