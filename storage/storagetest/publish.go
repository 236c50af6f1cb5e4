package storagetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

func publishCases() []testCase {
	return []testCase{
		{
			name: "a new channel's first message gets clock 1", run: publishFirst,
			notice: "a publish to a name that was never used fails, or its clocks don't count from 1",
		},
		{
			name: "each message gets the next clock", ring: true, run: publishSuccessive,
			notice: "clocks are skipped, given twice or run backwards",
		},
		{
			name: "a repeated ID gets the first one's clock", ring: true, run: publishRepeated,
			notice: "a publisher's retry makes a second message, or is answered with a clock where it doesn't stand",
		},
		{
			name: "a repeated ID changes nothing", run: publishRepeatedChangesNothing,
			notice: "a retry replaces the first message, or prolongs lives though nothing was written",
		},
		{
			name: "an ID counts on its own channel only", run: publishSameIDElsewhere,
			notice: "a message is lost because another channel has had one of the same ID",
		},
		{
			name: "an ID counts until its record expires", ring: true, run: publishAfterRecord,
			notice: "an ID can never be used again, or a used one breaks reading",
		},
		{
			name: "a message's ID may be any name", run: publishNames,
			notice: "messages with long or unusual IDs are lost or mixed up",
		},
		{
			name: "contents are copied", run: publishCopies,
			notice: "a message changes after it was published",
		},
		{
			name: "a publish that was given up can be repeated", run: publishGivenUp,
			notice: "after a timeout, a retry of the same messages doubles, drops or half-writes them",
		},
	}
}

func publishFirst(s *subject) {
	published := s.publish("a")
	require.Equal(s.t, []channel.Published{{ID: "a", Clock: 1}}, published)
	require.Equal(s.t, clock.Clock(1), s.position().Clock)
	require.Empty(s.t, s.describe().Subscribers)
}

func publishSuccessive(s *subject) {
	s.subscribe("s")
	for n, id := range numbered(8) {
		published := s.publish(id)
		require.Equal(s.t, []channel.Published{{ID: id, Clock: s.at(n + 1)}}, published)
		require.Equal(s.t, s.at(n+1), s.position().Clock, "the channel's clock is the last one given out")
	}
	b := s.reads("s", 0, numbered(8)...)
	for i, m := range b.Messages {
		require.Equal(s.t, s.at(i+1), m.Clock, "the clock that the publish was answered with")
	}
}

func publishRepeated(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	require.Equal(s.t, []channel.Published{{ID: "a", Clock: s.at(1), Duplicate: true}}, s.publish("a"))
	require.Equal(s.t, []channel.Published{{ID: "b", Clock: s.at(2), Duplicate: true}}, s.publish("b"))
	require.Equal(s.t, []channel.Published{{ID: "c", Clock: s.at(3)}}, s.publish("c"))
	s.ack("s", s.reads("s", 0, "a", "b", "c"))
	require.True(s.t, s.publish("a")[0].Duplicate, "an ID counts after its message was acknowledged too")
	s.reads("s", 0)
}

func publishRepeatedChangesNothing(s *subject) {
	s.subscribe("s")
	s.publish("a")
	before := s.reads("s", 0, "a")
	parts := []Part{clockPart, epochPart, subscribersPart, mark("s"), message(1), record("a")}
	s.setLife(ttl/2, parts...)

	again := s.send(channel.Draft{ID: "a", Content: []byte(`"another content"`)})
	require.Equal(s.t, []channel.Published{{ID: "a", Clock: 1, Duplicate: true}}, again)
	for _, p := range parts {
		require.LessOrEqual(s.t, s.life(p), ttl/2, "the life of %s", p)
	}
	require.Equal(s.t, before, s.reads("s", 0, "a"))
}

func publishSameIDElsewhere(s *subject) {
	other := s.on("other")
	s.publish("a", "b")
	require.Equal(s.t, []channel.Published{{ID: "b", Clock: 1}}, other.publish("b"))
	other.subscribeFrom("s", channel.From{Start: channel.StartEarliest})
	other.reads("s", 0, "b")
}

func publishAfterRecord(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	s.expire(record("a"))
	require.Equal(s.t, []channel.Published{{ID: "a", Clock: s.at(3)}}, s.publish("a"))
	require.Equal(s.t, []channel.Published{{ID: "a", Clock: s.at(3), Duplicate: true}}, s.publish("a"))
	s.reads("s", 0, "a", "b", "a")
}

func publishNames(s *subject) {
	ids := []string{"0", "a:b", "a.b", "a-b", "A_b", "clock", "r.s", "m.1", "mid.0", longName}
	s.subscribe("s")
	s.publish(ids...)
	for _, p := range s.publish(ids...) {
		require.True(s.t, p.Duplicate, p.ID)
	}
	s.reads("s", 0, ids...)
}

func publishCopies(s *subject) {
	s.subscribe("s")
	d := draft("a")
	s.send(d)
	clear(d.Content)
	s.reads("s", 0, "a")
}

// publishGivenUp cancels publishes at any moment, and repeats each until it is answered.
func publishGivenUp(s *subject) {
	s.subscribe("s")
	var all []string
	for range 20 {
		ids := []string{}
		for _, id := range numbered(3) {
			ids = append(ids, longName[:len(all)+1]+"."+id)
		}
		ctx, cancel := context.WithCancel(s.ctx())
		done := make(chan struct{})
		go func() {
			defer close(done)
			cancel()
		}()
		_, _ = s.store.Publish(ctx, channel.PublishRequest{Channel: s.channel, Drafts: draftsOf(ids...), Policy: s.policy})
		<-done
		for i, p := range s.batch(ids...) {
			require.Equal(s.t, s.at(len(all)+i+1), p.Clock, "the clock of %s after a first try was given up", p.ID)
		}
		all = append(all, ids...)
	}
	s.reads("s", 0, all...)
}
