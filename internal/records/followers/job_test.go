package followers_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/followers"
	"github.com/tidemark-dev/tidemark/internal/records/site"
)

const topic = "notifications:topic:1"

// world is an in-memory implementation of channels, follow lists and the set.
type world struct {
	mu         sync.Mutex
	pending    map[string]time.Time
	announced  func(string)
	log        map[string][]channel.Message // by channel
	acked      map[string]int
	changed    chan struct{} // closed and replaced with each message and announcement
	followers  map[string][]records.ID
	fail       func(name string) error // of a publish; nil: none
	counted    map[followers.Outcome]int
	groups     []int  // sizes of the groups that were published
	unfollowed string // a channel of a source that the job doesn't have
	asked      int    // for the followers of that
	logged     []string
}

func newWorld() *world {
	return &world{
		pending: map[string]time.Time{}, log: map[string][]channel.Message{}, acked: map[string]int{},
		changed:   make(chan struct{}),
		followers: map[string][]records.ID{}, counted: map[followers.Outcome]int{},
	}
}

func (w *world) change() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) Announce(_ context.Context, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending[name] = time.Now()
	if w.announced != nil {
		w.announced(name)
	}
	w.change()
	return nil
}

func (w *world) Age(_ context.Context, name string) (followers.Mark, time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.pending[name]
	if !ok {
		return "", 0, nil
	}
	return followers.Mark(at.String()), time.Since(at), nil
}

func (w *world) Settle(_ context.Context, name string, at followers.Mark) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[name].String() != string(at) {
		return false, nil
	}
	delete(w.pending, name)
	return true, nil
}

func (w *world) Pending(_ context.Context, each func(string)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.pending {
		each(name)
	}
	return nil
}

func (w *world) Watch(announced func(string), lost func()) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.announced = announced
	lost()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.announced = nil
	}
}

// publish publishes to a channel with copies.
func (w *world) publish(t *testing.T, name string, ids ...string) {
	t.Helper()
	require.NoError(t, w.Announce(t.Context(), name))
	w.write(name, ids...)
}

func (w *world) write(name string, ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.log[name] = append(w.log[name], channel.Message{ID: id, Content: []byte(strconv.Quote(id)),
			PublishedAt: time.Now()})
	}
	w.change()
}

func (w *world) Next(ctx context.Context, q channel.Query, handle string) (channel.Delivery, error) {
	timer := time.NewTimer(q.Wait)
	defer timer.Stop()
	for {
		w.mu.Lock()
		if handle != "" {
			n, _ := strconv.Atoi(handle)
			w.acked[q.Channel], handle = max(w.acked[q.Channel], n), ""
		}
		found, changed := w.log[q.Channel][w.acked[q.Channel]:], w.changed
		found = found[:min(len(found), q.Max)]
		receipt := strconv.Itoa(w.acked[q.Channel] + len(found))
		w.mu.Unlock()
		if len(found) > 0 {
			return channel.Delivery{Messages: found, Receipt: receipt}, nil
		}
		select {
		case <-changed:
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		return channel.Delivery{}, ctx.Err()
	}
}

func (w *world) PublishEach(_ context.Context, requests []channel.PublishRequest) []channel.PublishResult {
	results := make([]channel.PublishResult, len(requests))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups = append(w.groups, len(requests))
	for i, r := range requests {
		if w.fail != nil {
			if results[i].Err = w.fail(r.Channel); results[i].Err != nil {
				continue
			}
		}
		for _, d := range r.Drafts {
			p, at := channel.Published{ID: d.ID}, slices.IndexFunc(w.log[r.Channel], func(m channel.Message) bool {
				return m.ID == d.ID
			})
			if p.Duplicate = at >= 0; p.Duplicate {
				p.Differs = !bytes.Equal(w.log[r.Channel][at].Content, d.Content)
			} else {
				w.log[r.Channel] = append(w.log[r.Channel], channel.Message{ID: d.ID, Content: d.Content})
			}
			results[i].Published = append(results[i].Published, p)
		}
	}
	return results
}

func (w *world) Of(_ context.Context, name string) ([]records.ID, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name == w.unfollowed {
		w.asked++
		return nil, followers.ErrNotFollowed
	}
	if ids, ok := w.followers[name]; ok {
		return ids, nil
	}
	return nil, records.ErrNotCached
}

func (w *world) Count(o followers.Outcome, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted[o] += n
}

// Hold implements followers.Leases.
func (w *world) Hold(ctx context.Context, _ string, f func(context.Context, uint64) error) error {
	return f(ctx, 1)
}

// Write records a line of the log.
func (w *world) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logged = append(w.logged, string(line))
	return len(line), nil
}

// ids returns the messages of a user, and the position acknowledged on a channel.
func (w *world) ids(user, of string) (ids string, acked int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, m := range w.log["notifications:"+user] {
		all = append(all, m.ID)
	}
	return strings.Join(all, " "), w.acked[of]
}

func (w *world) outcomes() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint(w.counted)
}

// inBubble runs a test with a clock of its own and a job that runs until stop, or the end of the test.
func inBubble(t *testing.T, test func(t *testing.T, w *world, run func() (j *followers.Job, stop func()))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		test(t, w, func() (*followers.Job, func()) {
			j := followers.NewJob(followers.Options{Store: w, Channels: w, Followers: w, Leases: w, Metrics: w,
				Logger: slog.New(slog.NewTextHandler(w, nil))})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- j.Run(ctx) }()
			stop := sync.OnceFunc(func() {
				cancel()
				require.NoError(t, <-done)
			})
			t.Cleanup(stop)
			return j, stop
		})
	})
}

func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestCopies(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world, run func() (*followers.Job, func())) {
		w.followers[topic] = []records.ID{"ann", "bob", "ann", "global", "topic:2", "a:b", "", "\n"}
		w.publish(t, topic, "m1", "m2") // before the job runs
		j, stop := run()
		synctest.Wait()
		for _, user := range []string{"ann", "bob"} {
			ids, _ := w.ids(user, topic)
			require.Equal(t, "m1 m2", ids)
		}
		_, acked := w.ids("", topic)
		require.Equal(t, 2, acked)
		require.Equal(t, "map[delivered:4 duplicate:2 refused:10]", w.outcomes())
		require.Empty(t, w.log["notifications:global"], "an ID gets nobody the channel of something else")
		require.Empty(t, w.log["notifications:topic:2"])

		w.publish(t, topic, "m3")
		synctest.Wait()
		ids, _ := w.ids("bob", topic)
		require.Equal(t, "m1 m2 m3", ids)
		require.Equal(t, 1, j.Pending())
		later(2 * time.Minute)
		require.Zero(t, j.Pending())
		require.Empty(t, w.pending, "nothing is left, and nobody is asked")

		w.publish(t, topic, "m4")
		synctest.Wait()
		ids, _ = w.ids("ann", topic)
		require.Equal(t, "m1 m2 m3 m4", ids)
		stop()
	})
}

// A copy whose ID the follower has for another message isn't delivered, which is counted.
func TestTwoMessagesOfOneID(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world, run func() (*followers.Job, func())) {
		w.followers[topic] = []records.ID{"ann", "bob"}
		w.log["notifications:ann"] = []channel.Message{{ID: "m1", Content: []byte("1")}}
		w.publish(t, topic, "m1")
		run()
		synctest.Wait()
		require.Equal(t, "map[delivered:1 differs:1]", w.outcomes())
	})
}

// A message long after its announcement is copied, too: a publish can be slow.
func TestALatePublish(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world, run func() (*followers.Job, func())) {
		w.followers[topic] = []records.ID{"ann"}
		run()
		require.NoError(t, w.Announce(t.Context(), topic))
		later(59 * time.Second)
		w.write(topic, "late")
		synctest.Wait()
		ids, _ := w.ids("ann", topic)
		require.Equal(t, "late", ids)
	})
}

// After a crash in the middle no message is lost or duplicated.
func TestACrash(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world, run func() (*followers.Job, func())) {
		for i := range 600 {
			w.followers[topic] = append(w.followers[topic], records.ID(strconv.Itoa(i)))
		}
		_, stop := run()
		w.mu.Lock()
		w.fail = func(name string) error {
			if name == "notifications:599" { // the others have it
				return fault.ErrUnavailable
			}
			return nil
		}
		w.mu.Unlock()
		w.publish(t, topic, "m1")
		synctest.Wait()
		_, acked := w.ids("", topic)
		require.Zero(t, acked)
		stop()
		w.mu.Lock()
		w.fail = nil
		w.mu.Unlock()
		run()
		synctest.Wait()
		for i := range 600 {
			ids, acked := w.ids(strconv.Itoa(i), topic)
			require.Equal(t, "m1", ids)
			require.Equal(t, 1, acked)
		}
		require.LessOrEqual(t, slices.Max(w.groups), 256)
	})
}

// A failure for one follower or channel is retried, and doesn't stop the others.
func TestWhatFails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world, run func() (*followers.Job, func())) {
		const slow, unlisted = "notifications:author:slow", "notifications:shout:unlisted"
		w.followers[topic], w.followers[slow] = []records.ID{"ann", "closed", "strict", "typed"}, []records.ID{"down"}
		w.fail = func(name string) error {
			switch name {
			case "notifications:down":
				return fault.ErrUnavailable
			case "notifications:closed":
				return &channel.RefusedError{Err: channel.ErrClosed}
			case "notifications:strict":
				return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugSchema}
			case "notifications:typed":
				return &channel.RefusedError{Err: channel.ErrContentType}
			}
			return nil
		}
		j, _ := run()
		w.publish(t, slow, "s1")
		w.publish(t, unlisted, "u1")
		later(time.Second)
		w.publish(t, topic, "m1")
		later(time.Minute)
		ids, acked := w.ids("ann", topic)
		require.Equal(t, "m1", ids)
		require.Equal(t, 1, acked)
		require.Equal(t, "map[delivered:1 refused:3]", w.outcomes())
		require.GreaterOrEqual(t, j.Lag(), time.Minute)
		for _, name := range []string{slow, unlisted} {
			_, acked := w.ids("", name)
			require.Zero(t, acked, "nothing is dropped: %s", name)
		}
		w.mu.Lock()
		w.fail, w.followers[unlisted] = nil, []records.ID{"bob"}
		w.mu.Unlock()
		later(time.Minute)
		for user, want := range map[string]string{"down": "s1", "bob": "u1"} {
			ids, _ := w.ids(user, "")
			require.Equal(t, want, ids)
		}
		require.Zero(t, j.Lag())
	})
}

// The messages of a source that the job's table doesn't have are left to a job that has it, and the log says so once.
func TestANewSource(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world, run func() (*followers.Job, func())) {
		w.followers[topic], w.unfollowed = []records.ID{"ann"}, topic
		j, stop := run()
		for range 2 {
			w.publish(t, topic, "m"+strconv.Itoa(w.asked+1))
			later(10 * time.Minute)
			require.Zero(t, j.Pending())
		}
		require.Equal(t, 2, w.asked, "the job doesn't poll")
		require.Len(t, w.logged, 1)
		require.Contains(t, w.logged[0], "level=INFO")
		stop()
		w.unfollowed = ""
		run()
		synctest.Wait()
		ids, _ := w.ids("ann", topic)
		require.Equal(t, "m1 m2", ids)
	})
}

// A message with many followers is published in groups of bounded size, also if it is large.
func TestManyFollowers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world, run func() (*followers.Job, func())) {
		for i := range 100_000 {
			w.followers[topic] = append(w.followers[topic], records.ID(strconv.Itoa(i)))
		}
		other := "notifications:topic:2"
		w.followers[other] = []records.ID{"ann", "bob", "eve"}
		w.log[other] = []channel.Message{{ID: "large", Content: make([]byte, 3<<20)}}
		require.NoError(t, w.Announce(t.Context(), other))
		w.publish(t, topic, "m1")
		run()
		synctest.Wait()
		require.Equal(t, "map[delivered:100003]", w.outcomes())
		require.Equal(t, 256, slices.Max(w.groups))
		require.GreaterOrEqual(t, len(w.groups), 100_000/256+3, "three for the large one")
	})
}

func TestAnnouncer(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := followers.NewAnnouncer(w, site.Community().Sources)
	for name, want := range map[string]bool{topic: true, "notifications:ann": false, "notifications:global": false,
		"notifications:author:7": true} {
		copied, err := a.Announce(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, want, copied, name)
	}
	require.Len(t, w.pending, 2)
}
