package channel

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
)

// stubStore calls the functions that a test sets. Other calls panic.
type stubStore struct {
	Store
	publish     func(PublishRequest) ([]Published, error)
	fetch       func(FetchRequest) (Batch, error)
	ack         func(AckRequest) error
	next        func(AckRequest, FetchRequest) (Batch, error)
	poll        func(PollRequest) PollResult
	fetchEach   func([]FetchRequest) []BatchResult
	subscribe   func(SubscribeRequest) (Subscription, error)
	unsubscribe func(channel, subscriber string) error
	describe    func(DescribeRequest) (Description, error)
}

func (s *stubStore) Publish(_ context.Context, r PublishRequest) ([]Published, error) {
	return s.publish(r)
}
func (s *stubStore) PublishEach(_ context.Context, requests []PublishRequest) (results []PublishResult) {
	for _, r := range requests {
		published, err := s.publish(r)
		results = append(results, PublishResult{Published: published, Err: err})
	}
	return results
}
func (s *stubStore) Fetch(_ context.Context, r FetchRequest) (Batch, error) { return s.fetch(r) }
func (s *stubStore) Ack(_ context.Context, r AckRequest) error              { return s.ack(r) }
func (s *stubStore) Next(_ context.Context, a AckRequest, f FetchRequest) (Batch, error) {
	return s.next(a, f)
}
func (s *stubStore) Poll(_ context.Context, requests []PollRequest) (results []PollResult) {
	for _, r := range requests {
		results = append(results, s.poll(r))
	}
	return results
}
func (s *stubStore) FetchEach(_ context.Context, requests []FetchRequest) []BatchResult {
	return s.fetchEach(requests)
}
func (s *stubStore) Subscribe(_ context.Context, r SubscribeRequest) (Subscription, error) {
	return s.subscribe(r)
}
func (s *stubStore) Unsubscribe(_ context.Context, channel, subscriber string, _ ulid.ULID) error {
	return s.unsubscribe(channel, subscriber)
}
func (s *stubStore) Describe(_ context.Context, r DescribeRequest) (Description, error) {
	return s.describe(r)
}

// operations are the calls of a service by a channel's and a subscriber's name. Those of "channel" have no
// subscriber.
func operations(s *Service, channel, subscriber string) map[string]func(context.Context) error {
	handle := s.receipts.Sign(receipt.Receipt{Channel: "ch", Subscriber: "s"})
	q := Query{Channel: channel, Subscriber: subscriber}
	return map[string]func(context.Context) error{
		"channel: publish": func(ctx context.Context) error {
			_, err := s.Publish(ctx, PublishRequest{Channel: channel, Drafts: []Draft{{Content: []byte("1")}}})
			return err
		},
		"channel: describe": func(ctx context.Context) error {
			_, err := s.Describe(ctx, channel, Page{})
			return err
		},
		"subscribe": func(ctx context.Context) error {
			_, err := s.Subscribe(ctx, SubscribeRequest{Channel: channel, Subscriber: subscriber})
			return err
		},
		"unsubscribe": func(ctx context.Context) error { return s.Unsubscribe(ctx, channel, subscriber, AnyLife) },
		"ack":         func(ctx context.Context) error { return s.Ack(ctx, channel, subscriber, handle) },
		"fetch": func(ctx context.Context) error {
			_, err := s.Fetch(ctx, q)
			return err
		},
		"next": func(ctx context.Context) error {
			_, err := s.Next(ctx, q, handle)
			return err
		},
	}
}

func TestNamesAreCheckedBeforeTheStore(t *testing.T) {
	t.Parallel()
	s := serviceOn(t, &stubStore{}, DefaultLimits())
	for name, call := range operations(s, "a{b}", "s") {
		e := requireError(t, call(t.Context()), fault.Invalid, fault.SlugInvalidChannel)
		require.Equal(t, "channel", e.Field, name)
	}
	for name, call := range operations(s, "ch", "a/b") {
		if strings.HasPrefix(name, "channel: ") {
			continue
		}
		e := requireError(t, call(t.Context()), fault.Invalid, fault.SlugInvalidSubscriber)
		require.Equal(t, "subscriber", e.Field, name)
	}
}

func TestPolicyIsFoundBeforeTheStore(t *testing.T) {
	t.Parallel()
	s := serviceOn(t, &stubStore{}, DefaultLimits(), Rule{Pattern: "ch", TTL: "2s"},
		Rule{Pattern: "bad-(.*)", TTL: "$1"})
	for name, call := range operations(s, "bad-ttl", "s") {
		if name != "unsubscribe" && name != "channel: life" { // they need no policy, and so they work
			requireError(t, call(t.Context()), fault.Invalid, fault.SlugInvalidPolicy)
		}
	}
}

// Errors of the store keep their slugs, and name the operation.
func TestErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	refused := fault.ErrUnavailable.WithCause(errNoise)
	s := serviceOn(t, &stubStore{
		publish:     func(PublishRequest) ([]Published, error) { return nil, refused },
		fetch:       func(FetchRequest) (Batch, error) { return Batch{}, refused },
		ack:         func(AckRequest) error { return refused },
		next:        func(AckRequest, FetchRequest) (Batch, error) { return Batch{}, refused },
		subscribe:   func(SubscribeRequest) (Subscription, error) { return Subscription{}, refused },
		unsubscribe: func(string, string) error { return refused },
		describe:    func(DescribeRequest) (Description, error) { return Description{}, refused },
	}, DefaultLimits())
	for name, call := range operations(s, "ch", "s") {
		err := call(t.Context())
		require.ErrorIs(t, err, fault.ErrUnavailable, name)
		require.ErrorIs(t, err, errNoise, name)
		_, what, _ := strings.Cut(name, "channel: ")
		if what == "" {
			what = name
		}
		require.ErrorContains(t, err, what+" ")
		require.ErrorContains(t, err, "ch")
	}
}

func TestPublish(t *testing.T) {
	t.Parallel()
	var asked PublishRequest
	s := serviceOn(t, &stubStore{publish: func(r PublishRequest) ([]Published, error) {
		asked = r
		return []Published{{ID: r.Drafts[0].ID, Clock: 7}, {ID: r.Drafts[1].ID, Clock: 3, Duplicate: true}}, nil
	}}, DefaultLimits(), Rule{Pattern: "ch", MaxMessages: "9"})
	drafts := []Draft{{ID: "a", Content: []byte(`{}`)}, {ID: "b", Content: []byte(`[1]`)}}
	got, err := s.Publish(t.Context(), PublishRequest{Channel: "ch", Drafts: drafts})
	require.NoError(t, err)
	require.Equal(t, []Published{{ID: "a", Clock: 7}, {ID: "b", Clock: 3, Duplicate: true}}, got)
	require.Equal(t, PublishRequest{
		Channel: "ch", Drafts: drafts,
		Policy: Policy{TTL: time.Hour, MaxMessages: 9, MaxMessageBytes: 100},
	}, asked)
}

// A generated ID is new. If the store still finds it, its own retry has found its first try, which isn't a duplicate
// for the publisher.
func TestPublishMakesIDs(t *testing.T) {
	t.Parallel()
	var asked []string
	s := serviceOn(t, &stubStore{publish: func(r PublishRequest) (all []Published, _ error) {
		for _, d := range r.Drafts {
			asked = append(asked, d.ID)
			all = append(all, Published{ID: d.ID, Clock: 1, Duplicate: true})
		}
		return all, nil
	}}, DefaultLimits())
	drafts := []Draft{{Content: []byte("1")}, {ID: "mine", Content: []byte("2")}, {Content: []byte("3")}}
	kept := slices.Clone(drafts)
	got, err := s.Publish(t.Context(), PublishRequest{Channel: "ch", Drafts: drafts})
	require.NoError(t, err)
	require.Equal(t, kept, drafts, "the caller's drafts are left alone")
	require.Equal(t, []bool{false, true, false}, []bool{got[0].Duplicate, got[1].Duplicate, got[2].Duplicate})
	require.Equal(t, asked, []string{got[0].ID, got[1].ID, got[2].ID})
	require.Equal(t, "mine", got[1].ID)
	require.NotEqual(t, got[0].ID, got[2].ID)
	for _, i := range []int{0, 2} {
		require.NoError(t, CheckMessageID(got[i].ID))
		id, err := ulid.ParseStrict(got[i].ID)
		require.NoError(t, err)
		require.LessOrEqual(t, id.Time(), ulid.Now())
	}
}

// numbers is a Schema of contents that aren't objects.
type numbers struct{}

func (numbers) Check(content []byte) (field string, err error) {
	if content[0] == '{' {
		return "/n", errors.New("is missing")
	}
	return "", nil
}

func TestDraftsThatAreRefused(t *testing.T) {
	t.Parallel()
	limits := DefaultLimits()
	limits.MaxBatch = 3
	s := serviceOn(t, &stubStore{}, limits, Rule{Pattern: "ch", Schema: numbers{}})
	ok, large, named := Draft{Content: []byte("1")}, Draft{Content: make([]byte, 101)},
		Draft{ID: "a/b", Content: []byte("1")}
	for _, tt := range []struct {
		name   string
		drafts []Draft
		kind   fault.Kind
		slug   fault.Slug
		field  string
	}{
		{"none", nil, fault.Invalid, fault.SlugInvalidBatch, ""},
		{"too many", []Draft{ok, ok, ok, ok}, fault.TooLarge, fault.SlugBatchTooLarge, ""},
		{"a bad ID", []Draft{named}, fault.Invalid, fault.SlugInvalidMessageID, "/id"},
		{"a bad ID in a batch", []Draft{ok, named}, fault.Invalid, fault.SlugInvalidMessageID, "/1/id"},
		{"too large", []Draft{large}, fault.TooLarge, fault.SlugMessageTooLarge, "/content"},
		{"too large in a batch", []Draft{ok, ok, large}, fault.TooLarge, fault.SlugMessageTooLarge, "/2/content"},
		{"not of the schema", []Draft{{Content: []byte(`{}`)}}, fault.Invalid, fault.SlugSchema, "/content/n"},
		{"not JSON, on a channel with a schema", []Draft{{ContentType: "text/plain", Content: []byte(`1`)}}, fault.Invalid,
			fault.SlugSchema, "/contentType"},
		{"of no type", []Draft{{ContentType: "text", Content: []byte(`1`)}}, fault.Invalid, fault.SlugContentType,
			"/contentType"},
		{"of a type that isn't normal, in a batch", []Draft{ok, {ContentType: "Text/plain", Content: []byte(`1`)}},
			fault.Invalid, fault.SlugContentType, "/1/contentType"},
		{"JSON with a type", []Draft{{ContentType: "application/json", Content: []byte(`1`)}}, fault.Invalid,
			fault.SlugContentType, "/contentType"},
		{"not of the schema in a batch", []Draft{ok, {Content: []byte(`{}`)}}, fault.Invalid, fault.SlugSchema,
			"/1/content/n"},
		{"the first one counts", []Draft{large, named}, fault.TooLarge, fault.SlugMessageTooLarge, "/0/content"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := s.Publish(t.Context(), PublishRequest{Channel: "ch", Drafts: tt.drafts})
			require.Equal(t, tt.field, requireError(t, err, tt.kind, tt.slug).Field)
		})
	}
	_, err := s.Publish(t.Context(), PublishRequest{Channel: "ch", Drafts: []Draft{large}})
	require.ErrorContains(t, err, "101 bytes, at most 100")
}

func TestContentAsLargeAsAllowed(t *testing.T) {
	t.Parallel()
	s := serviceOn(t, newWorld(in1(0)), DefaultLimits(), Rule{Pattern: "ch", MaxMessageBytes: "7"})
	_, err := s.Publish(t.Context(), PublishRequest{Channel: "ch", Drafts: []Draft{{Content: make([]byte, 7)}}})
	require.NoError(t, err)
	_, err = s.Publish(t.Context(), PublishRequest{Channel: "ch", Drafts: []Draft{{Content: make([]byte, 8)}}})
	requireError(t, err, fault.TooLarge, fault.SlugMessageTooLarge)
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	var asked SubscribeRequest
	want := Subscription{Created: true, Position: in1(5)}
	s := serviceOn(t, &stubStore{subscribe: func(r SubscribeRequest) (Subscription, error) {
		asked = r
		return want, nil
	}}, DefaultLimits())
	for _, from := range []From{
		{}, {Start: StartEarliest}, {Start: StartAt, Clock: clock.Max}, {Start: StartAt, Clock: clock.Min},
		{Clock: math.MaxInt64},
	} {
		got, err := s.Subscribe(t.Context(), SubscribeRequest{Channel: "ch", Subscriber: "s", From: from})
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, SubscribeRequest{Channel: "ch", Subscriber: "s", From: from, Policy: testPolicy}, asked)
	}
	for _, from := range []From{
		{Start: StartAt, Clock: clock.Max + 1}, {Start: StartAt, Clock: clock.Min - 1}, {Start: StartAt + 1},
		{Start: -1},
	} {
		_, err := s.Subscribe(t.Context(), SubscribeRequest{Channel: "ch", Subscriber: "s", From: from})
		require.Equal(t, "/from", requireError(t, err, fault.Invalid, fault.SlugInvalidFrom).Field)
	}
}

// TestPublishEach publishes requests, with a refused one and a failing one among them.
func TestPublishEach(t *testing.T) {
	t.Parallel()
	later := ulid.Make()
	s := serviceOn(t, &stubStore{publish: func(r PublishRequest) ([]Published, error) {
		if r.Epoch == later {
			return nil, ErrLaterLife
		}
		require.NotZero(t, r.Policy.TTL)
		return []Published{{ID: r.Channel + "/" + r.Subscriber}}, nil
	}}, DefaultLimits())
	draft := []Draft{{Content: []byte("1")}}
	results := s.PublishEach(t.Context(), []PublishRequest{
		{Channel: "a", Drafts: draft, Subscriber: "s"}, {Channel: "a b", Drafts: draft},
		{Channel: "b", Drafts: draft, Subscriber: "-"},
		{Channel: "c"}, {Channel: "d", Drafts: draft, Epoch: later}, {Channel: "e", Drafts: draft},
	})
	require.Equal(t, PublishResult{Published: []Published{{ID: "a/s"}}}, results[0])
	requireError(t, results[1].Err, fault.Invalid, fault.SlugInvalidChannel)
	requireError(t, results[2].Err, fault.Invalid, fault.SlugInvalidSubscriber)
	requireError(t, results[3].Err, fault.Invalid, fault.SlugInvalidBatch)
	require.ErrorIs(t, results[4].Err, ErrLaterLife)
	require.Equal(t, PublishResult{Published: []Published{{ID: "e/"}}}, results[5])
}

func TestUnsubscribeAndDescribe(t *testing.T) {
	t.Parallel()
	var removed string
	var asked []DescribeRequest
	want := Description{Life: Life{Position: in1(5)}, Live: 2}
	s := serviceOn(t, &stubStore{
		unsubscribe: func(channel, subscriber string) error {
			removed = channel + "/" + subscriber
			return nil
		},
		describe: func(r DescribeRequest) (Description, error) {
			asked = append(asked, r)
			return want, nil
		},
	}, DefaultLimits())
	require.NoError(t, s.Unsubscribe(t.Context(), "ch", "s", AnyLife))
	require.Equal(t, "ch/s", removed)
	for _, page := range []Page{{}, {Cursor: 7, Limit: 3}, {Limit: MaxPage + 1}} {
		got, err := s.Describe(t.Context(), "ch", page)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Equal(t, []DescribeRequest{
		{Channel: "ch", Page: Page{Limit: DefaultPage}, Policy: testPolicy},
		{Channel: "ch", Page: Page{Cursor: 7, Limit: 3}, Policy: testPolicy},
		{Channel: "ch", Page: Page{Limit: MaxPage}, Policy: testPolicy},
	}, asked)
	require.Equal(t, DefaultLimits(), s.Limits())
}

type refusedReceipt struct {
	slug   fault.Slug
	handle string
}

// receiptCases are handles that are refused before the store is asked.
func receiptCases(t *testing.T) []refusedReceipt {
	t.Helper()
	ring := keyring(t)
	other, err := receipt.NewKeyring(slices.Repeat(receipt.Key{8}, receipt.MinKeyBytes))
	require.NoError(t, err)
	r := receipt.Receipt{Channel: "ch", Subscriber: "s", Epoch: life1, Clock: 7}
	elsewhere, another := r, r
	elsewhere.Channel, another.Subscriber = "ch2", "s2"
	return []refusedReceipt{
		{fault.SlugReceiptMalformed, "no handle"},
		{fault.SlugReceiptForged, other.Sign(r)},
		{fault.SlugReceiptChannel, ring.Sign(elsewhere)},
		{fault.SlugReceiptSubscriber, ring.Sign(another)},
	}
}

func TestReceiptsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serviceOn(t, &stubStore{}, DefaultLimits())
	for _, tt := range receiptCases(t) {
		_, next := s.Next(t.Context(), Query{Channel: "ch", Subscriber: "s"}, tt.handle)
		_, waiting := s.Next(t.Context(), Query{Channel: "ch", Subscriber: "s", Wait: time.Second}, tt.handle)
		for _, err := range []error{s.Ack(t.Context(), "ch", "s", tt.handle), next, waiting} {
			e := requireError(t, err, fault.Invalid, tt.slug)
			require.Equal(t, "/receiptHandle", e.Field)
			require.Error(t, e.Cause)
			require.NotContains(t, e.Detail, tt.handle)
		}
	}
	requireError(t, s.Ack(t.Context(), "ch", "s", ""), fault.Invalid, fault.SlugReceiptMalformed)
}

// TestReceiptsOfUnknownKeys: a request with receipts that no key has signed looks for keys once before it refuses
// them.
func TestReceiptsOfUnknownKeys(t *testing.T) {
	t.Parallel()
	other := slices.Repeat(receipt.Key{8}, receipt.MinKeyBytes)
	signer, err := receipt.NewKeyring(other)
	require.NoError(t, err)
	handle := func(channel string) string { return signer.Sign(receipt.Receipt{Channel: channel, Subscriber: "s"}) }
	forged := &fault.Error{Slug: fault.SlugReceiptForged}
	for name, c := range map[string]struct {
		found bool
		fails error
		want  error
	}{
		"another server's": {found: true}, "nobody's": {want: forged},
		"the storage fails": {fails: fault.ErrUnavailable, want: fault.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &stubStore{
				ack:       func(AckRequest) error { return nil },
				next:      func(AckRequest, FetchRequest) (Batch, error) { return Batch{}, nil },
				poll:      func(PollRequest) PollResult { return PollResult{} },
				fetchEach: func([]FetchRequest) []BatchResult { return nil },
			}
			s, lookups := serviceOn(t, store, DefaultLimits()), 0
			key := slices.Repeat(receipt.Key{7}, receipt.MinKeyBytes)
			s.lookUp = func(context.Context) error {
				lookups++
				if c.found {
					return s.receipts.Replace(key, other)
				}
				return c.fails
			}
			for _, call := range []func() error{
				func() error { return s.Ack(t.Context(), "ch", "s", handle("ch")) },
				func() error {
					_, err := s.Next(t.Context(), Query{Channel: "ch", Subscriber: "s"}, handle("ch"))
					return err
				},
				func() error {
					d, err := s.FetchMany(t.Context(), ManyQuery{From: []Source{
						{Channel: "a", Subscriber: "s", Receipt: handle("a")},
						{Channel: "b", Subscriber: "s", Receipt: handle("b")},
					}})
					for _, p := range d.Problems {
						err = p.Err
					}
					return err
				},
			} {
				require.NoError(t, s.receipts.Replace(key))
				lookups = 0
				require.ErrorIs(t, call(), c.want)
				require.Equal(t, 1, lookups)
				require.NoError(t, s.Ack(t.Context(), "ch", "s", s.receipts.Sign(receipt.Receipt{Channel: "ch",
					Subscriber: "s"})), "a known key needs no lookup")
			}
		})
	}
}

func TestAck(t *testing.T) {
	t.Parallel()
	var asked AckRequest
	s := serviceOn(t, &stubStore{ack: func(r AckRequest) error {
		asked = r
		return nil
	}}, DefaultLimits())
	r := receipt.Receipt{Channel: "ch", Subscriber: "s", Epoch: life1, Clock: clock.Min, MessageID: "m"}
	require.NoError(t, s.Ack(t.Context(), "ch", "s", s.receipts.Sign(r)))
	require.Equal(t, AckRequest{Receipt: r, Policy: testPolicy}, asked)
}
