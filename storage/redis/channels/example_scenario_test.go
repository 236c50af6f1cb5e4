package channels

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
)

// The worked example's times: a step of its t, and the channel's TTL. A test takes so little time that TTLs that differ
// by much less than a step can be distinguished.
const (
	exampleUnit   = 10 * time.Minute
	exampleExpire = 6 * exampleUnit
	exampleSlack  = exampleUnit / 10
)

var stepHeading = regexp.MustCompile(`(?m)^### t=(\d+): (.+)$`)

// exampleEnd reads "3 + expire" or "3 + 1.1 expire".
func exampleEnd(t testing.TB, text string) float64 {
	t.Helper()
	at, life, found := strings.Cut(text, " + ")
	require.True(t, found, text)
	start, err := strconv.Atoi(at)
	require.NoError(t, err, text)
	factor := 1.0
	if times, ok := strings.CutSuffix(life, " expire"); ok {
		factor, err = strconv.ParseFloat(times, 64)
		require.NoError(t, err, text)
	} else {
		require.Equal(t, "expire", life, text)
	}
	return float64(start) + factor*float64(exampleExpire/exampleUnit)
}

// example is a channel on a real Redis whose TTLs the test can shorten.
type example struct {
	*lab
	now    int                      // the example's t
	batch  map[string]channel.Batch // what each subscriber fetched last
	policy channel.Policy
	epoch  string
}

// lab is a store, and direct access to its Redis.
type lab struct {
	*Store
	*storetest.Lab
	name string // the channel
}

func newLab(t *testing.T, name string) *lab {
	t.Helper()
	l := storetest.NewLab(t)
	return &lab{Store: of(t, l.Conn, Options{}), Lab: l, name: name}
}

func (l *lab) set(t *testing.T, key, value string) {
	t.Helper()
	life := strconv.FormatInt(exampleExpire.Milliseconds(), 10)
	require.NoError(t, l.Node.Do(t, "SET", l.Conn.Prefix()+key, value, "PX", life).Error())
}

// until advances the example's time.
func (e *example) until(t *testing.T, at int) {
	t.Helper()
	require.GreaterOrEqual(t, at, e.now)
	e.Pass(t, time.Duration(at-e.now)*exampleUnit)
	e.now = at
}

func (e *example) subscribe(t *testing.T, name string) {
	t.Helper()
	sub, err := e.Subscribe(t.Context(), channel.SubscribeRequest{Channel: e.name, Subscriber: name, Policy: e.policy})
	require.NoError(t, err)
	require.True(t, sub.Created)
}

func (e *example) publish(t *testing.T, id, content string, duplicate, differs bool) {
	t.Helper()
	drafts, started := []channel.Draft{{ID: id, Content: []byte(content)}}, len(e.Found(t)) == 0
	published, err := e.Publish(t.Context(), channel.PublishRequest{Channel: e.name, Drafts: drafts, Policy: e.policy})
	require.NoError(t, err)
	require.Equal(t, []channel.Published{
		{ID: id, Clock: 1, Duplicate: duplicate, Differs: differs, Begun: started, Epoch: published[0].Epoch},
	}, published)
}

func (e *example) request(subscriber string) channel.FetchRequest {
	return channel.FetchRequest{Channel: e.name, Subscriber: subscriber, Max: 10, MaxBytes: 1 << 20, Policy: e.policy}
}

func (e *example) fetch(t *testing.T, subscriber string) {
	t.Helper()
	b, err := e.Fetch(t.Context(), e.request(subscriber))
	require.NoError(t, err)
	require.Len(t, b.Messages, 1)
	require.Equal(t, "msg123", b.Messages[0].ID)
	require.JSONEq(t, `{"text": "hello!"}`, string(b.Messages[0].Content))
	require.Equal(t, clock.Clock(1), b.Through)
	e.batch[subscriber] = b
}

func (e *example) receipt(subscriber string) channel.AckRequest {
	r := receiptOf(e.name, e.batch[subscriber])
	r.Subscriber = subscriber
	return channel.AckRequest{Receipt: r, Policy: e.policy}
}

func (e *example) ack(t *testing.T, subscriber string) {
	t.Helper()
	require.NoError(t, e.Ack(t.Context(), e.receipt(subscriber)))
}

func (e *example) next(t *testing.T, subscriber string) {
	t.Helper()
	e.fetch(t, subscriber)
	b, err := e.Next(t.Context(), e.receipt(subscriber), e.request(subscriber))
	require.NoError(t, err)
	require.Empty(t, b.Messages)
}

// holds compares all keys of the channel with a step's table.
func (e *example) holds(t *testing.T, step storetest.Step) {
	t.Helper()
	e.RequireStep(t, step, exampleSlack, func(key string) string { return e.Value(t, key) },
		func(end string) time.Duration {
			return time.Duration((exampleEnd(t, end) - float64(e.now)) * float64(exampleUnit))
		})
	for key := range step.Keys {
		if value := e.Value(t, key); strings.HasSuffix(key, ".epoch") {
			require.Contains(t, []string{"", value}, e.epoch, "the epoch stays")
			e.epoch = value
		}
	}
}

// TestWorkedExample runs the worked example of docs/redis/channels.md, which is that of DSPS, and
// compares all keys, values and TTLs after each step with the page.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	e := &example{
		lab: newLab(t, "chX"), now: 1, batch: map[string]channel.Batch{},
		policy: channel.Policy{TTL: exampleExpire, MaxMessageBytes: 1000},
	}
	const content = `{ "text": "hello!" }`
	run := map[string]func(){
		"subscribe sA":         func() { e.subscribe(t, "sA") },
		"subscribe sB":         func() { e.subscribe(t, "sB") },
		"publish msg123":       func() { e.publish(t, "msg123", content, false, false) },
		"fetch by sA":          func() { e.fetch(t, "sA") },
		"ack by sA":            func() { e.ack(t, "sA") },
		"next by sB":           func() { e.next(t, "sB") },
		"publish msg123 again": func() { e.publish(t, "msg123", "0", true, true) },
		"unsubscribe sA":       func() { require.NoError(t, e.Unsubscribe(t.Context(), e.name, "sA", ulid.ULID{})) },
	}
	steps := storetest.Steps(t, "channels", "## The worked example", stepHeading)
	require.Len(t, steps, len(run))
	for _, step := range steps {
		require.Contains(t, run, step.Title)
		at, err := strconv.Atoi(step.At)
		require.NoError(t, err)
		e.until(t, at)
		run[step.Title]()
		e.holds(t, step)
	}
}

// TestExampleKeysHaveTheTypesOfThePage compares the types of the example's keys with the page's key table.
func TestExampleKeysHaveTheTypesOfThePage(t *testing.T) {
	t.Parallel()
	e := &example{lab: newLab(t, "ch"), batch: map[string]channel.Batch{}, policy: channel.Policy{TTL: exampleExpire}}
	e.name = "ch"
	e.subscribe(t, "<subscriber>")
	e.publish(t, "<id>", "1", false, false)
	var want []string
	keys := KeysOf("", "ch")
	rare := []string{keys.Label(), keys.Purged(), keys.Deleted(), keys.Producers()}
	for _, row := range rows(t) {
		if row.Kind == "sharded pub/sub channel" || !strings.HasPrefix(row.Key, "c.{ch}.") ||
			slices.Contains(rare, row.Key) {
			continue
		}
		key := strings.ReplaceAll(row.Key, "<clock>", "1")
		kind, err := e.Node.Do(t, "TYPE", e.Conn.Prefix()+key).ToString()
		require.NoError(t, err)
		require.Equal(t, row.Kind, kind, key)
		want = append(want, key)
	}
	slices.Sort(want)
	require.Equal(t, want, e.Found(t), "the page has all keys that there are")

	_, err := e.ReceiptKeys(t.Context())
	require.NoError(t, err)
	require.Contains(t, e.Found(t), receiptKey(""))
	require.Equal(t, -time.Millisecond, e.Lab.Life(t, "tidemark.receipt-key"), "it never ends")
}

// TestPredecessorsChannel uses a channel with the keys of the second table of DSPS's page: no epoch, no subs, a
// message with spaces and without a time.
func TestPredecessorsChannel(t *testing.T) {
	t.Parallel()
	e := &example{lab: newLab(t, "chX"), batch: map[string]channel.Batch{}, policy: channel.Policy{TTL: exampleExpire}}
	for key, value := range map[string]string{
		"c.{chX}.clock": "1", "c.{chX}.r.sA": "0", "c.{chX}.r.sB": "0", "c.{chX}.mid.msg123": "1",
		"c.{chX}.m.1": `{ "id": "msg123", "content": { "text": "hello!" } }`,
	} {
		e.set(t, key, value)
	}
	e.fetch(t, "sA")
	e.fetch(t, "sB")
	require.Zero(t, e.batch["sA"].Epoch)
	require.Equal(t, `{ "text": "hello!" }`, string(e.batch["sA"].Messages[0].Content))
	require.Zero(t, e.batch["sA"].Messages[0].PublishedAt)

	wrong := e.receipt("sA")
	wrong.Receipt.MessageID = "another"
	require.ErrorIs(t, e.Ack(t.Context(), wrong), channel.ErrReceiptSuperseded)
	e.ack(t, "sA")
	require.Equal(t, "1", e.Value(t, "c.{chX}.r.sA"))
	e.publish(t, "msg123", "0", true, false) // its content isn't compared
	require.NotContains(t, e.Found(t), "c.{chX}.epoch", "nothing was written")

	published, err := e.Publish(t.Context(), channel.PublishRequest{
		Channel: "chX", Drafts: []channel.Draft{{ID: "msg124", Content: []byte("1")}}, Policy: e.policy,
	})
	require.NoError(t, err)
	require.Equal(t, clock.Clock(2), published[0].Clock)
	require.Regexp(t, storetest.Shape("<ULID>"), e.Value(t, "c.{chX}.epoch"))
	require.ErrorIs(t, e.Ack(t.Context(), e.receipt("sB")), channel.ErrReceiptEpoch)

	d, err := e.Describe(t.Context(), about("chX", e.policy))
	require.NoError(t, err)
	require.Empty(t, d.Subscribers, "the predecessor keeps no names")
	sub, err := e.Subscribe(t.Context(), channel.SubscribeRequest{Channel: "chX", Subscriber: "sA", Policy: e.policy})
	require.NoError(t, err)
	require.False(t, sub.Created)
	require.Equal(t, clock.Clock(1), sub.Clock)
	d, err = e.Describe(t.Context(), about("chX", e.policy))
	require.NoError(t, err)
	require.Equal(t, []channel.SubscriberLag{{Name: "sA", Mark: 1, Lag: 1}}, d.Subscribers)
	require.LessOrEqual(t, e.Ends(t, "c.{chX}.clock"), e.Ends(t, "c.{chX}.subs"))
}

// TestPredecessorsSubscriberIsRemoved checks that its waiters are notified, although the channel has no epoch, or
// not even a clock any more.
func TestPredecessorsSubscriberIsRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t, "chX")
	l.set(t, "c.{chX}.clock", "-5")
	events := make(chan channel.Event, 10)
	defer l.Listen("chX", func(e channel.Event) { events <- e })()
	require.Equal(t, channel.EventConfirmed, (<-events).Kind)
	for _, at := range []clock.Clock{-5, 0} {
		l.set(t, "c.{chX}.r.sA", "-7")
		require.NoError(t, l.Unsubscribe(t.Context(), "chX", "sA", ulid.ULID{}))
		want := channel.Event{Kind: channel.EventUnsubscribed, Position: channel.Position{Clock: at}, Subscriber: "sA"}
		require.Equal(t, want, <-events)
		require.NoError(t, l.Node.Do(t, "DEL", l.Conn.Prefix()+"c.{chX}.clock").Error())
	}
}

// TestRenewalAtNineTenths checks the page's rule for an idle poll on both sides of its limit.
func TestRenewalAtNineTenths(t *testing.T) {
	t.Parallel()
	fetched := func(t *testing.T, aged time.Duration) (before, after map[string]int64) {
		t.Helper()
		e := &example{lab: newLab(t, "chX"), batch: map[string]channel.Batch{},
			policy: channel.Policy{TTL: exampleExpire}}
		e.publish(t, "msg123", `{"text": "hello!"}`, false, false)
		e.subscribe(t, "sA")
		e.Pass(t, aged)
		all := func() map[string]int64 {
			ends := map[string]int64{}
			for _, key := range e.Found(t) {
				ends[key] = e.Ends(t, key)
			}
			return ends
		}
		before = all()
		b, err := e.Fetch(t.Context(), e.request("sA"))
		require.NoError(t, err)
		require.Empty(t, b.Messages)
		return before, all()
	}
	t.Run("a little younger", func(t *testing.T) {
		t.Parallel()
		before, after := fetched(t, exampleExpire/10-time.Minute)
		require.Equal(t, before, after, "nothing is written")
	})
	t.Run("a little older", func(t *testing.T) {
		t.Parallel()
		before, after := fetched(t, exampleExpire/10+time.Second)
		renewed := after["c.{chX}.r.sA"]
		require.Greater(t, renewed, before["c.{chX}.r.sA"])
		for _, key := range []string{"c.{chX}.epoch", "c.{chX}.clock", "c.{chX}.subs"} {
			require.Equal(t, renewed+exampleExpire.Milliseconds()/10, after[key], "%s ends a tenth of the TTL later",
				key)
		}
		for _, key := range []string{"c.{chX}.m.1", "c.{chX}.mid.msg123"} {
			require.Equal(t, before[key], after[key], "the life of %s isn't prolonged", key)
		}
	})
}

// TestPublishRenewsTheEpochWhenItIsDue checks that the epoch and the subs are renewed only if the clock would outlive
// them.
func TestPublishRenewsTheEpochWhenItIsDue(t *testing.T) {
	t.Parallel()
	e := &example{lab: newLab(t, "chX"), batch: map[string]channel.Batch{}, policy: channel.Policy{TTL: exampleExpire}}
	e.subscribe(t, "sA")
	margin := exampleExpire.Milliseconds() / 10
	ends := func() (clock, epoch, subs int64) {
		return e.Ends(t, "c.{chX}.clock"), e.Ends(t, "c.{chX}.epoch"), e.Ends(t, "c.{chX}.subs")
	}
	publish := func(id string) {
		drafts := []channel.Draft{{ID: id, Content: []byte("1")}}
		_, err := e.Publish(t.Context(), channel.PublishRequest{Channel: "chX", Drafts: drafts, Policy: e.policy})
		require.NoError(t, err)
	}
	for i, aged := range []time.Duration{time.Second, exampleExpire/10 + time.Second} {
		e.Pass(t, aged)
		publish(fmt.Sprintf("due%d", i))
		at, epoch, subs := ends()
		require.Equal(t, []int64{at + margin, at + margin}, []int64{epoch, subs})

		e.Pass(t, exampleExpire/20)
		publish(fmt.Sprintf("early%d", i))
		later, sameEpoch, sameSubs := ends()
		passed := exampleExpire.Milliseconds() / 20
		require.Equal(t, []int64{epoch - passed, subs - passed}, []int64{sameEpoch, sameSubs}, "they aren't written")
		require.InDelta(t, at, later, float64(time.Minute.Milliseconds()), "the clock is renewed with each publish")
	}
}

// TestLivesKeepTheirOrder checks the page's rule of monotony for random operations and TTLs: no message ends before
// an earlier one, the clock ends after all of them, and the epoch and the subs no earlier than the clock.
func TestLivesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		l := newLab(t, "ch") // with no keys yet
		for i, do := range rapid.SliceOfN(rapid.SampledFrom([]string{"publish", "subscribe", "fetch", "ack", "pass",
			"publish"}), 1, 12).Draw(r, "calls") {
			minutes := rapid.SampledFrom([]int{1, 2, 5, 6, 60}).Draw(r, "minutes")
			policy := channel.Policy{TTL: time.Duration(minutes) * time.Minute}
			subscriber := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "subscriber")
			request := channel.FetchRequest{Channel: "ch", Subscriber: subscriber, Max: 2, MaxBytes: 100,
				Policy: policy}
			var err error
			switch do {
			case "publish":
				drafts := []channel.Draft{{ID: strconv.Itoa(i), Content: []byte("1")},
					{ID: "x" + strconv.Itoa(i), Content: []byte("2")}}
				_, err = l.Publish(t.Context(), channel.PublishRequest{Channel: "ch", Drafts: drafts, Policy: policy})
			case "subscribe":
				_, err = l.Subscribe(t.Context(), channel.SubscribeRequest{Channel: "ch", Subscriber: subscriber,
					Policy: policy})
			case "fetch":
				_, err = l.Fetch(t.Context(), request)
			case "ack":
				var b channel.Batch
				if b, err = l.Fetch(t.Context(), request); err == nil {
					about := receiptOf("ch", b)
					about.Subscriber = subscriber
					err = l.Ack(t.Context(), channel.AckRequest{Receipt: about, Policy: policy})
				}
			case "pass":
				l.Pass(t, policy.TTL*9/10)
			}
			if !errors.Is(err, channel.ErrNoSubscriber) {
				require.NoError(r, err)
			}
			l.requireOrder(t, r)
		}
	})
}

// requireOrder compares the ends of all keys of the lab's channel.
func (l *lab) requireOrder(t *testing.T, fail require.TestingT) {
	t.Helper()
	ends := map[string]int64{}
	var messages []int
	for _, key := range l.Found(t) {
		ends[key] = l.Ends(t, key)
		if number, isMessage := strings.CutPrefix(key, "c.{ch}.m."); isMessage {
			n, err := strconv.Atoi(number)
			require.NoError(fail, err)
			messages = append(messages, n)
		}
	}
	last := ends["c.{ch}.clock"]
	for key, at := range ends {
		if key == "c.{ch}.epoch" || key == "c.{ch}.subs" {
			require.GreaterOrEqual(fail, at, last, "the clock outlives %s", key)
		} else {
			require.LessOrEqual(fail, at, last, "%s outlives the clock", key)
		}
	}
	require.GreaterOrEqual(fail, ends["c.{ch}.epoch"], last, "a channel has an epoch")
	slices.Sort(messages)
	for i, n := range messages[:max(0, len(messages)-1)] {
		require.Equal(fail, n+1, messages[i+1], "no gap between messages alive")
		require.LessOrEqual(fail, ends["c.{ch}.m."+strconv.Itoa(n)], ends["c.{ch}.m."+strconv.Itoa(n+1)], "message %d",
			n+1)
	}
	if len(messages) > 0 {
		require.Equal(fail, strconv.Itoa(messages[len(messages)-1]), l.Value(t, "c.{ch}.clock"),
			"the last message lives longest")
	}
}
