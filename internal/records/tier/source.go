package tier

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/shard"
)

// Values reads the cached values of a kind from their store.
type Values interface {
	// Walk returns a walk over the IDs that have values.
	Walk(kind *records.Kind) Walk
	// Read returns a value for each ID, in their order, as the primaries have them. Values that are longer than
	// Kind.MaxBytes, or that aren't strings, aren't found. At most MaxRead IDs are allowed.
	Read(ctx context.Context, kind *records.Kind, ids []string) ([]Value, error)
	// Life returns text that changes when writes may have been lost: one that is promoted or restarted has another
	// life.
	Life(ctx context.Context) (string, error)
}

// MaxRead is how many IDs are read at once: with values of a mebibyte they take 64 MiB.
const MaxRead = 64

// Walk goes over the IDs that have values all the time, each at least once.
type Walk interface {
	// Next returns the next IDs, and how many keys it has looked at. After the last ones it returns io.EOF. After
	// another error it can be called again.
	Next(ctx context.Context) (ids []string, looked int, err error)
}

// Value is a value as it was read.
type Value struct {
	Found bool
	Bytes []byte
	Left  time.Duration // until it ends; 0: it has no end
}

// Channels reads the announcements. *channel.Service implements it.
type Channels interface {
	Subscribe(ctx context.Context, r channel.SubscribeRequest) (channel.Subscription, error)
	Unsubscribe(ctx context.Context, channel, subscriber string, last ulid.ULID) error
	Next(ctx context.Context, q channel.Query, handle string) (channel.Delivery, error)
}

// The defaults of SourceOptions.
const (
	DefaultReload = 10 * time.Minute
	DefaultRate   = 50_000
)

// SourceOptions configures a Source. Kind, Values, Channels and Life are needed.
type SourceOptions struct {
	Kind     *records.Kind
	Values   Values
	Channels Channels
	// Life returns text that changes when the channels may have lost writes, as Values.Life does for values.
	Life func(ctx context.Context) (string, error)
	// Reload is how often all values are read again, up to a tenth earlier. It bounds how long the node differs from
	// Redis if a program writes there without this package; zero: DefaultReload.
	Reload time.Duration
	// Rate is how many keys of Redis are looked at in a second while values are loaded; zero: DefaultRate.
	Rate int
	// MaxBytes is the total size of IDs and values; zero: no limit. Values that don't fit are left out, and have to be
	// read from Redis.
	MaxBytes int64
	Logger   *slog.Logger // nil: nothing is logged
}

// Source loads the values of an interval and follows their changes. It may be used by one node at a time.
type Source struct {
	o       SourceOptions
	present atomic.Pointer[follower] // the last one that has loaded, or the first one

	refreshes refreshes

	mu    sync.Mutex
	lives string    // of Redis, when the last run began; "": no run has begun
	after time.Time // when all writes announced before another life began have ended
}

// NewSource returns the source of a node.
func NewSource(o SourceOptions) *Source {
	o.Reload, o.Rate = cmp.Or(o.Reload, DefaultReload), cmp.Or(o.Rate, DefaultRate)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Source{o: o}
}

// Stats is the state of a source.
type Stats struct {
	Entries int64
	Bytes   int64 // of their IDs and values
	// values that were read since the last full load began, and didn't fit into SourceOptions.MaxBytes
	LeftOut int64
	Behind  time.Duration // for how long the oldest announcement that was read waits to be applied
}

// Stats returns the current state of the source.
func (s *Source) Stats() Stats {
	f := s.present.Load()
	if f == nil {
		return Stats{}
	}
	st := Stats{Entries: f.table.Len(), Bytes: f.table.Bytes(), LeftOut: f.leftOut.Load()}
	if at := f.oldest.Load(); at != nil {
		st.Behind = max(0, time.Since(*at))
	}
	return st
}

// ErrGap is wrapped by the errors of Run if announcements may have been missed.
var ErrGap = errors.New("announcements of changes may have been missed")

// Run loads the values of an interval, calls serve, and applies announced changes until ctx ends. It continues while
// Redis is unreachable, except at the beginning. After any error values must be loaded again; it wraps ErrGap if
// announcements may have been missed.
func (s *Source) Run(ctx context.Context, in shard.Interval, serve func(shard.Reader[string, string, []byte])) error {
	f := &follower{
		o: &s.o, refreshes: &s.refreshes, in: in, table: newTable(), subscriber: "node." + id.New(),
		announced: announced{writes: map[string]write{}, dirty: map[string]struct{}{}},
	}
	if err := s.begin(ctx, f); err != nil {
		return err
	}
	defer f.unsubscribe(ctx)
	// values of a former interval aren't answered any more
	if last := s.present.Load(); last == nil || last.in != in {
		s.present.Store(f)
	}
	f.serve = func(r shard.Reader[string, string, []byte]) {
		s.present.Store(f)
		serve(r)
	}
	return f.run(ctx)
}

// begin subscribes, before anything is read. All existing announcements are read, since a writer that died may have
// written after its announcement and after the value was loaded. If announcements were lost, the load starts only when
// their writes have ended.
func (s *Source) begin(ctx context.Context, f *follower) error {
	lives, err := f.lives(ctx)
	if err != nil {
		return err
	}
	if _, err := s.o.Channels.Subscribe(ctx, channel.SubscribeRequest{
		Channel: Channel(s.o.Kind), Subscriber: f.subscriber, From: channel.From{Start: channel.StartEarliest},
	}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.lives != "" && s.lives != lives {
		s.after = now.Add(MaxWrite)
	}
	s.lives = lives
	f.readLives, f.looked, f.reload = lives, now, now
	if s.after.After(now) {
		f.reload = s.after
	}
	return nil
}

// jittered returns a time up to a tenth shorter.
func jittered(d time.Duration) time.Duration {
	return d - time.Duration(float64(d)*0.1*rand.Float64()) //nolint:gosec // no secret
}
