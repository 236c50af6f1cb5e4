package records_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	domain "github.com/tidemark-dev/tidemark/internal/records/tier"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
)

// published records publishes: "<channel>: [over] <IDs>" of each change, and "write" for each write. A publish takes a
// second.
type published struct {
	mu   sync.Mutex
	log  []string
	sent int // messages
	fail error
}

func (p *published) Publish(_ context.Context, r channel.PublishRequest) ([]channel.Published, error) {
	<-time.After(time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return nil, p.fail
	}
	if p.sent += len(r.Drafts); len(r.Drafts[0].Content) > domain.MaxMessageBytes {
		return nil, errors.New("too large")
	}
	changes, err := domain.DecodeChanges(r.Drafts[0].Content)
	for _, c := range changes {
		over := ""
		if c.Over {
			over = "over "
		}
		p.log = append(p.log, r.Channel+": "+over+strings.Join(c.IDs, " "))
	}
	return nil, err
}

// write returns a write that returns err.
func (p *published) write(err error) func(context.Context) error {
	return func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.log = append(p.log, "write")
		return err
	}
}

func TestAnnouncer(t *testing.T) {
	t.Parallel()
	author, topic := records.CacheKey{Kind: site.Kind("author"), ID: "1"}, records.CacheKey{Kind: site.Kind("topic"), ID: "2"}
	unclear := fault.ErrUnavailable.WithCause(errors.New("a lost answer"))
	for name, c := range map[string]struct {
		keys        []records.CacheKey
		fail, write error
		want        []string
		err         error
	}{
		"a write": {[]records.CacheKey{author}, nil, nil,
			[]string{"cache:author: 1", "write", "cache:author: over 1"}, nil},
		"several values": {[]records.CacheKey{author, {Kind: site.Kind("author"), ID: `é"\`}}, nil, nil,
			[]string{`cache:author: 1 é"\`, "write", `cache:author: over 1 é"\`}, nil},
		"a kind without a tier": {[]records.CacheKey{topic}, nil, nil, []string{"write"}, nil},
		"some without one": {[]records.CacheKey{topic, author}, nil, nil,
			[]string{"cache:author: 1", "write", "cache:author: over 1"}, nil},
		"no ID": {[]records.CacheKey{{Kind: site.Kind("author"), ID: "\xff"}}, nil, nil, []string{"write"}, nil},
		"one that may be made": {[]records.CacheKey{author}, nil, unclear, []string{"cache:author: 1", "write"},
			fault.ErrUnavailable},
		"not announced":       {[]records.CacheKey{author}, errors.New("down"), nil, nil, fault.ErrUnavailable},
		"refused to announce": {[]records.CacheKey{author}, fault.ErrStorageFull, nil, nil, fault.ErrStorageFull},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &published{fail: c.fail}
				a := redisrecords.NewAnnouncer(p, []*records.Kind{site.Kind("author"), site.Kind("shouts")},
					5*time.Second)
				defer a.Close()
				err := a.Announce(t.Context(), c.keys, p.write(c.write))
				require.ErrorIs(t, err, c.err)
				require.Equal(t, c.want, p.log)
			})
		})
	}
}

// A tag's values may be of several kinds. All are announced before any is removed.
func TestAnnouncesSeveralKinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &published{}
		a := redisrecords.NewAnnouncer(p, []*records.Kind{site.Kind("author"), site.Kind("topic")}, 5*time.Second)
		defer a.Close()
		keys := []records.CacheKey{{Kind: site.Kind("author"), ID: "1"}, {Kind: site.Kind("topic"), ID: "2"}}
		require.NoError(t, a.Announce(t.Context(), keys, p.write(nil)))
		require.ElementsMatch(t, []string{"cache:author: 1", "cache:topic: 2"}, p.log[:2])
		require.Equal(t, "write", p.log[2])
		require.Len(t, p.log, 5)
	})
}

// Changes of many writes share a message, up to its bounds. A write that is too late isn't begun.
func TestAnnouncesTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &published{}
		a := redisrecords.NewAnnouncer(p, []*records.Kind{site.Kind("author")}, 5*time.Second)
		defer a.Close()
		var writers sync.WaitGroup
		for i := range 3000 {
			writers.Go(func() {
				key := records.CacheKey{Kind: site.Kind("author"), ID: fmt.Sprint(i)}
				err := a.Announce(t.Context(), []records.CacheKey{key}, p.write(nil))
				if err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		require.Len(t, p.log, 9000)
		require.Less(t, p.sent, 10)

		keys := make([]records.CacheKey, 500) // of an invalidation by tag
		for i := range keys {
			keys[i] = records.CacheKey{Kind: site.Kind("author"), ID: strings.Repeat(`"`, records.MaxQueryBytes)}
		}
		require.NoError(t, a.Announce(t.Context(), keys, func(ctx context.Context) error {
			until, ok := ctx.Deadline()
			require.True(t, ok)
			require.Less(t, time.Until(until), domain.MaxWrite-time.Second, "it was announced a second ago")
			return nil
		}))
	})
}
