package redis

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// A Redis that loads its data is one that is back in a moment.
func TestFailureLoading(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{Args: []string{
		"--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024", // 10 ms a key
	}})
	registry := prometheus.NewRegistry()
	s := openAt(t, Options{URL: n.URL(), Timeout: time.Minute, Metrics: registry})
	lore{messages: 3}.make(t, s, n.Client(), "x")
	require.NoError(t, n.Do(t, "DEBUG", "POPULATE", "5000", "ballast", "2000").Error())
	require.NoError(t, n.Do(t, "SAVE").Error())
	n.Kill(t)

	published, opened := make(chan error), make(chan error)
	go func() { published <- second(s.Publish(t.Context(), one("x", "new"))) }()
	go func() {
		other, err := Open(t.Context(), Options{URL: n.URL(), Logger: s.logger})
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
		n.Client().Do(t.Context(), n.Client().B().ConfigSet().ParameterValue().ParameterValue("key-load-delay", "0").Build())
	}()
	n.Restart(t)
	require.NoError(t, <-published)
	require.NoError(t, <-opened)
	requireWhole(t, s, n.Client(), "x", 4)
}

// label gives a counter's value for one label.
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

// On a replica nothing can be written. It may become a primary, so the answer is to try again.
func TestFailureReadOnlyReplica(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Options{})
	replica := redistest.StartReplica(t, primary)
	lore{messages: 3}.make(t, openAt(t, Options{URL: primary.URL()}), primary.Client(), "x")
	waitFor(t, "the replica to have it all", func() bool { return len(dumpOf(t, replica)) == len(dumpOf(t, primary)) })
	s := openAt(t, Options{URL: replica.URL()})
	all, before := calls(t, s, "x"), dumpOf(t, replica)
	reads := []string{"fetch", "position", "inspect"}
	requireEach(t.Context(), t, only(all, reads...), requireFine)
	requireEach(shortly(t), t, allBut(all, reads...), requireUnavailable)
	require.Equal(t, before, dumpOf(t, primary))
	require.Equal(t, before, dumpOf(t, replica))

	done := make(chan error)
	go func() { done <- second(s.Publish(t.Context(), one("x", "p0"))) }()
	require.NoError(t, replica.Do(t, "REPLICAOF", "NO", "ONE").Error())
	require.NoError(t, <-done)
	requireEach(t.Context(), t, all, requireFine)
}

// A publish that waits for replicas on a primary that stops being one is tried again.
func TestFailureDemotedWhileWaiting(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Options{})
	replica := redistest.StartReplica(t, primary)
	s := openAt(t, Options{URL: primary.URL(), Timeout: time.Minute})
	replica.Pause(t)
	r := one("x", "m1")
	r.Policy.Replicas = 1
	done := make(chan error)
	go func() { done <- second(s.Publish(t.Context(), r)) }()
	waitFor(t, "the publish to wait for the replica", func() bool {
		text, err := primary.Do(t, "INFO", "clients").ToString()
		require.NoError(t, err)
		return strings.Contains(text, "blocked_clients:1")
	})
	require.NoError(t, primary.Do(t, "REPLICAOF", "127.0.0.1", "1").Error())
	require.NoError(t, primary.Do(t, "REPLICAOF", "NO", "ONE").Error())
	replica.Resume(t)
	require.NoError(t, <-done)
	requireWhole(t, s, primary.Client(), "x", 1)
	require.Equal(t, "1", valueAt(t, replica, s.channel("x").clock()))
}

// A Redis that wants replicas for writing and has none takes nothing.
func TestFailureNoReplicas(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	registry := prometheus.NewRegistry()
	s := openAt(t, Options{URL: n.URL(), Metrics: registry})
	lore{messages: 3}.make(t, s, n.Client(), "x")
	all := calls(t, s, "x")
	set(t, n, "min-replicas-to-write", "1")
	before := dumpOf(t, n)
	reads := []string{"fetch", "position", "inspect"}
	requireEach(t.Context(), t, only(all, reads...), requireFine)
	requireEach(shortly(t), t, allBut(all, reads...), requireUnavailable)
	require.Equal(t, before, dumpOf(t, n))

	retried := label(registry, "tidemark_redis_retries_total", "NOREPLICAS")
	require.NotZero(t, retried)
	done := make(chan error)
	go func() { done <- second(s.Publish(t.Context(), one("x", "p1"))) }()
	waitFor(t, "the publish to be tried again", func() bool {
		return label(registry, "tidemark_redis_retries_total", "NOREPLICAS") > retried
	})
	set(t, n, "min-replicas-to-write", "0")
	require.NoError(t, <-done)
	requireEach(t.Context(), t, all, requireFine)
}

// A full Redis takes no message and no subscriber, whole or in part, but it can be drained.
func TestFailureOutOfMemory(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := openAt(t, Options{URL: n.URL()})
	for _, name := range []string{"x", "y"} {
		lore{messages: 3}.make(t, s, n.Client(), name)
	}
	all := calls(t, s, "x")
	require.NoError(t, second(s.ReceiptKeys(t.Context())))
	keyless := openAt(t, Options{URL: n.URL(), KeyPrefix: "other:"})
	fillUp(t, n)
	before := dumpOf(t, n)
	full := []string{"publish", "publish a batch", "subscribe"}
	require.ErrorIs(t, second(keyless.ReceiptKeys(t.Context())), fault.ErrStorageFull)
	requireEach(t.Context(), t, only(all, full...), requireFull)
	trimmed := one("x", "p1")
	trimmed.Policy.MaxMessages = 1
	require.ErrorIs(t, second(s.Publish(t.Context(), trimmed)), fault.ErrStorageFull)
	require.ErrorIs(t, second(s.Publish(t.Context(), one("new", "p1"))), fault.ErrStorageFull)
	require.Equal(t, before, dumpOf(t, n))
	requireEach(t.Context(), t, allBut(all, append(full, "ready")...), requireFine)
	err := s.Ready(t.Context())
	requireUnavailable(t, err)
	require.ErrorContains(t, err, "OOM", "the answer names the cause")
	d, err := s.Describe(t.Context(), about("x", lore{}.policy()))
	require.NoError(t, err)
	require.Zero(t, d.Subscribers[0].Lag, "the acknowledgement counted")
	require.NoError(t, s.Unsubscribe(t.Context(), "y", reader))
	require.ErrorIs(t, second(s.Fetch(t.Context(), lore{}.fetch("y"))), channel.ErrNoSubscriber)

	require.NoError(t, n.Do(t, "DEL", "ballast").Error())
	requireEach(t.Context(), t, all, requireFine)
}

// fillUp fills a server's memory with a key named ballast.
func fillUp(t *testing.T, n *redistest.Node) {
	t.Helper()
	require.NoError(t, n.Do(t, "SETRANGE", "ballast", strconv.Itoa(16<<20), "x").Error())
	text, err := n.Do(t, "INFO", "memory").ToString()
	require.NoError(t, err)
	_, rest, _ := strings.Cut(text, "used_memory:")
	used, err := strconv.Atoi(strings.TrimSpace(rest[:strings.IndexByte(rest, '\n')]))
	require.NoError(t, err)
	set(t, n, "maxmemory-policy", "noeviction")
	set(t, n, "maxmemory", strconv.Itoa(used-8<<20))
	require.ErrorContains(t, n.Do(t, "SET", "one", "more").Error(), "OOM")
}

// What Redis's user may not do is said so, and isn't half done.
func TestFailureNotPermitted(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	lore{messages: 3}.make(t, openAt(t, Options{URL: n.URL()}), n.Client(), "x")
	batch := one("x", "b1")
	batch.Drafts = drafted("b1", "b2")
	trimmed, due := batch, batch
	due.Policy.TTL = 2 * batch.Policy.TTL // so that the life of the epoch and the subs must be renewed
	trimmed.Policy.MaxMessages = 2
	for rights, r := range map[string]channel.PublishRequest{ //nolint:paralleltest // they share a server whose keys must not change
		"~* +@all resetchannels":           batch,
		"~* +@all &elsewhere":              batch,
		"~* +@all -spublish &*":            batch,
		"~* +@all -evalsha &*":             batch,
		"~* +@all -get &*":                 batch,
		"~* +@all -set &*":                 batch,
		"~* +@all -pexpireat &*":           due,
		"~* +@all -del &*":                 trimmed,
		"~c.{y}* %R~* ~tidemark* +@all &*": batch,
	} {
		t.Run(rights, func(t *testing.T) {
			user := append([]string{"ACL", "SETUSER", "limited", "reset", "on", ">secret"}, strings.Fields(rights)...)
			require.NoError(t, n.Do(t, user...).Error())
			s := openAt(t, Options{URL: n.URL(), Username: "limited", Password: "secret", Timeout: time.Hour})
			before := dumpOf(t, n)
			err := second(s.Publish(t.Context(), r))
			requireUnavailable(t, err)
			require.Equal(t, codeNoPermission, code(err))
			require.Equal(t, values(before), values(dumpOf(t, n)))
			require.NoError(t, n.Do(t, "ACL", "SETUSER", "limited", "~*", "+@all", "&*").Error())
			require.NoError(t, s.Ready(t.Context()))
			require.NoError(t, n.Do(t, "ACL", "SETUSER", "limited", "resetchannels").Error())
			requireUnavailable(t, s.Ready(t.Context()))
		})
	}
}

// values takes the ends off a dump: the life of a channel may be renewed before a right turns out to be missing.
func values(dump map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range dump {
		kept[key], _, _ = strings.Cut(value, "\" until ")
	}
	return kept
}

// A subscriber whose position a fail-over has given to another message is told so, and its mark stays.
func TestFailureLostWrites(t *testing.T) {
	t.Parallel()
	s, n := openStandalone(t)
	lore{messages: 5}.make(t, s, n.Client(), "x")
	ctx, l, ch := t.Context(), lore{}, s.channel("x")
	b, err := s.Fetch(ctx, l.fetch("x"))
	require.NoError(t, err)
	require.Len(t, b.Messages, 5)
	old := channel.AckRequest{Receipt: receiptOf("x", b), Policy: l.policy()}

	// As if the new primary had never got the last three.
	require.NoError(t, n.Do(t, "SET", ch.clock(), "2", "KEEPTTL").Error())
	for i := 3; i <= 5; i++ {
		id := "m" + strconv.Itoa(i)
		require.NoError(t, n.Do(t, "DEL", ch.messagePrefix()+strconv.Itoa(i), ch.messageID(id)).Error())
	}
	require.ErrorIs(t, s.Ack(ctx, old), channel.ErrReceiptAhead)
	require.ErrorIs(t, second(s.Next(ctx, old, l.fetch("x"))), channel.ErrReceiptAhead)
	require.NoError(t, publishAll(ctx, s, "x", "after", 4, func() {}))
	require.ErrorIs(t, s.Ack(ctx, old), channel.ErrReceiptSuperseded)
	require.ErrorIs(t, second(s.Next(ctx, old, l.fetch("x"))), channel.ErrReceiptSuperseded)

	b, err = s.Fetch(ctx, l.fetch("x"))
	require.NoError(t, err)
	require.EqualValues(t, 0, b.Mark)
	require.Len(t, b.Messages, 6)
	require.Equal(t, "after0", b.Messages[2].ID)
	require.NoError(t, s.Ack(context.WithoutCancel(ctx), channel.AckRequest{Receipt: receiptOf("x", b), Policy: l.policy()}))
}
