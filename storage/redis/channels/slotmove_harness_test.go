package channels

import (
	"strconv"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
)

// reader is the subscriber of the channels of these tests.
const reader = "reader"

// TestSlotMove tests channels whose slots move between two nodes. Its parts run one after the other: nodes that move
// keys to each other at the same time block each other.
func TestSlotMove(t *testing.T) {
	t.Parallel()
	c := storetest.StartTwoNodes(t)
	for _, part := range []struct { //nolint:paralleltest // see above
		name string
		test func(*testing.T, storetest.TwoNodes)
	}{
		{"fetch with every subset moved", fetchWithEverySubsetMoved},
		{"fetch of nobody", fetchOfNobody},
		{"publish never half writes", publishNeverHalfWrites},
		{"publish of duplicates", publishOfDuplicates},
		{"producers", producersInHalfMovedSlot},
		{"shared call", sharedCallInHalfMovedSlot},
		{"other operations", otherOperations},
		{"nodes disagree", nodesDisagree},
		{"under load", underLoad},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, c) })
	}
}

// lore describes a channel of these tests before its slot is moved.
type lore struct {
	start    clock.Clock // the channel's clock before the first message
	messages int
	expired  []int     // messages that have expired, counted from 1
	damaged  int       // a message with a wrong byte in its content, counted from 1; 0: none
	keeps    int       // Policy.MaxMessages while it is read
	max      int       // of a fetch; 0: 10
	ahead    int       // the message after which it begins, counted from 1; 0: the mark
	epoch    ulid.ULID // that make has returned; needed for ahead
	tail     *channel.From
}

func (l lore) policy() channel.Policy {
	return channel.Policy{TTL: time.Hour, MaxMessageBytes: 1000, MaxMessages: l.keeps}
}

func (l lore) fetch(name string) channel.FetchRequest {
	r := channel.FetchRequest{Channel: name, Subscriber: reader, Max: l.max, MaxBytes: 1 << 20, Policy: l.policy(),
		Identify: l.tail != nil}
	if r.Max == 0 {
		r.Max = 10
	}
	if r.Tail = l.tail; r.Tail != nil {
		r.Subscriber = ""
	}
	if l.ahead > 0 {
		r.After = &receipt.Receipt{Channel: name, Subscriber: reader, Epoch: l.epoch,
			Clock: l.start.Add(uint64(l.ahead)), MessageID: "m" + strconv.Itoa(l.ahead)}
	}
	return r
}

// make makes the channel, with a subscriber before its first message, and returns its epoch.
func (l lore) make(t *testing.T, s *Store, direct rueidis.Client, name string) ulid.ULID {
	t.Helper()
	ctx, policy := t.Context(), channel.Policy{TTL: time.Hour, MaxMessageBytes: 1000}
	made, err := s.Subscribe(ctx, channel.SubscribeRequest{Channel: name, Subscriber: reader, Policy: policy})
	require.NoError(t, err)
	ch := s.keys(name)
	if l.start != 0 {
		for _, key := range []string{ch.Clock(), ch.Mark(reader)} {
			set := direct.B().Set().Key(key).Value(l.start.String()).Xx().Keepttl().Build()
			require.NoError(t, direct.Do(ctx, set).Error())
		}
	}
	drafts := make([]channel.Draft, l.messages)
	for i := range drafts {
		drafts[i] = channel.Draft{ID: "m" + strconv.Itoa(i+1), Content: []byte(`{"n":` + strconv.Itoa(i+1) + `}`)}
	}
	_, err = s.Publish(ctx, channel.PublishRequest{Channel: name, Drafts: drafts, Policy: policy})
	require.NoError(t, err)
	for _, n := range l.expired {
		del := direct.B().Del().Key(ch.Message(l.start.Add(uint64(n)))).Build()
		require.NoError(t, direct.Do(ctx, del).Error())
	}
	if l.damaged > 0 {
		key := ch.Message(l.start.Add(uint64(l.damaged)))
		flip := direct.B().Setrange().Key(key).Offset(int64(len(`{"id":"m1","content":{"`))).Value("\x01").Build()
		require.NoError(t, direct.Do(ctx, flip).Error())
	}
	return made.Epoch
}

// parts returns the channel's keys that reading touches.
func (l lore) parts(s *Store, name string) []string {
	ch := s.keys(name)
	keys := ch.ForSubscriber(reader)
	if l.ahead > 0 {
		keys = append(keys, ch.MessageID("m"+strconv.Itoa(l.ahead)))
	}
	for n := 1; n <= l.messages; n++ {
		expired := false
		for _, g := range l.expired {
			expired = expired || g == n
		}
		if !expired {
			keys = append(keys, ch.Message(l.start.Add(uint64(n))))
		}
	}
	return keys
}

// receiptOf returns the receipt of a batch.
func receiptOf(name string, b channel.Batch) receipt.Receipt {
	r := receipt.Receipt{Channel: name, Subscriber: reader, Epoch: b.Epoch, Clock: b.Through}
	if b.Last.Clock == b.Through {
		r.MessageID, r.Write, r.PublishedAt = b.Last.ID, b.Last.Write, b.Last.PublishedAt
	}
	return r
}

// publishOf is a request to publish one message.
func publishOf(name, id string) channel.PublishRequest {
	return channel.PublishRequest{
		Channel: name, Drafts: []channel.Draft{{ID: id, Content: []byte(`{"of":"` + id + `"}`)}},
		Policy: channel.Policy{TTL: time.Hour, MaxMessageBytes: 1000},
	}
}
