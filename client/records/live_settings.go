package records

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/id"
)

// SettingsChannel is the channel on which each change of a setting is published.
const SettingsChannel = "settings"

const (
	liveWait    = 20 * time.Second // of one fetch
	livePause   = time.Second      // pause after an error
	liveAtOnce  = 100              // changes
	liveGrace   = 5 * time.Second  // for removing the subscriber
	liveRefresh = 5 * time.Minute
)

// LiveSettings are the settings of a service, kept current in memory. It needs the grants to read settings and to
// subscribe to SettingsChannel. Get and All may be called by many goroutines, also while Run runs.
type LiveSettings struct {
	client  *Client
	options LiveOptions
	name    string // of the subscriber
	ready   chan struct{}

	mu  sync.Mutex
	all map[string]Setting
}

// LiveOptions selects the settings, and configures their updates.
type LiveOptions struct {
	Category string // "": all
	// Changed is called by the goroutine of Run for each setting that has changed, and first for all existing ones. now
	// is nil for a deleted setting. Changed may be nil.
	Changed func(name string, now *Setting)
	// Refresh is the time after which all settings are read again. Changes are notified at once, except after a put
	// that failed after it wrote the value, or a loss of messages in the storage. Default: 5 minutes.
	Refresh time.Duration
}

// LiveSettings returns settings that Run keeps current.
func (c *Client) LiveSettings(o LiveOptions) *LiveSettings {
	o.Refresh = cmp.Or(o.Refresh, liveRefresh)
	if o.Changed == nil {
		o.Changed = func(string, *Setting) {}
	}
	return &LiveSettings{client: c, options: o, name: "settings-" + id.New(), ready: make(chan struct{}),
		all: map[string]Setting{}}
}

// Ready is closed when all settings have been read once.
func (l *LiveSettings) Ready() <-chan struct{} { return l.ready }

// Get returns a setting.
func (l *LiveSettings) Get(name string) (Setting, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.all[name]
	return s, ok
}

// All returns all settings by name.
func (l *LiveSettings) All() map[string]Setting {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.all)
}

// Run keeps the settings current until ctx ends, or the service refuses a call permanently, such as for missing grants.
// It subscribes, then reads all settings, and then follows the published changes, so that it misses none. If messages
// may have been lost, it begins again. It must be called once.
func (l *LiveSettings) Run(ctx context.Context) error {
	defer l.unsubscribe(ctx)
	for {
		err := l.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case refused(err):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(livePause):
		}
	}
}

// unsubscribe removes the subscriber, which would expire later anyway.
func (l *LiveSettings) unsubscribe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveGrace)
	defer cancel()
	_ = l.client.service.Unsubscribe(ctx, SettingsChannel, l.name)
}

// refused reports whether an error is permanent, so that Run must not begin again. Missing or outdated data is a
// temporary error.
func refused(err error) bool {
	var e *client.Error
	switch {
	case !errors.As(err, &e), errors.Is(err, client.ErrNoSubscriber), errors.Is(err, client.ErrNoChannel):
		return false
	case e.Status == http.StatusConflict, e.Status == http.StatusTooManyRequests:
		return false
	}
	return e.Status >= http.StatusBadRequest && e.Status < http.StatusInternalServerError
}

// follow subscribes, reads everything, and then reads the published changes until messages are lost. It returns nil
// when it is time to read everything again.
func (l *LiveSettings) follow(ctx context.Context) error {
	if _, err := l.client.service.Subscribe(ctx, SettingsChannel, l.name, client.Latest); err != nil {
		return err
	}
	if err := l.readAll(ctx); err != nil {
		return err
	}
	from, until := client.Source{Channel: SettingsChannel, Subscriber: l.name}, time.Now().Add(l.options.Refresh)
	for {
		remaining := time.Until(until)
		if remaining <= 0 {
			until = time.Now().Add(l.options.Refresh)
			if err := l.readAll(ctx); err != nil {
				return err
			}
			continue
		}
		asked := time.Now()
		d, err := l.fetch(ctx, from, min(liveWait, remaining))
		if err != nil {
			return err
		}
		if from.ReceiptHandle = d.ReceiptHandle; from.ReceiptHandle != "" || d.Lost {
			from.LastReceiptHandle = d.ReceiptHandle
		}
		if d.Expired+d.Purged+d.Damaged > 0 || d.Lost {
			err = l.readAll(ctx)
		} else {
			err = l.readSome(ctx, d.Messages)
		}
		// the service shuts down
		if err == nil && d.ReceiptHandle == "" && time.Since(asked) < min(livePause, remaining) {
			err = pause(ctx, livePause)
		}
		if err != nil {
			return err
		}
	}
}

// fetch acknowledges and fetches changes.
func (l *LiveSettings) fetch(ctx context.Context, from client.Source, wait time.Duration) (d client.Delivery, err error) {
	all, err := l.client.service.FetchMany(ctx, []client.Source{from}, client.FetchOptions{Max: liveAtOnce, Wait: wait})
	switch {
	case err != nil:
		return d, err
	case len(all.Problems) > 0:
		return d, all.Problems[0]
	case len(all.Found) > 0:
		d = all.Found[0].Delivery
	}
	return d, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// readAll reads all settings, and removes the others from memory.
func (l *LiveSettings) readAll(ctx context.Context) error {
	found, err := l.client.Settings(ctx, l.options.Category)
	if err != nil {
		return err
	}
	names := slices.Collect(maps.Keys(l.All()))
	for _, s := range found {
		if s.Value == nil {
			names = append(names, s.Name) // a list shows no secrets
			continue
		}
		l.set(s.Name, &s)
		names = slices.DeleteFunc(names, func(name string) bool { return name == s.Name })
	}
	if err := l.read(ctx, names); err != nil {
		return err
	}
	select {
	case <-l.ready:
	default:
		close(l.ready)
	}
	return nil
}

// readSome reads the settings that messages name. Messages of another form are ignored, as others may publish on the
// channel, too.
func (l *LiveSettings) readSome(ctx context.Context, messages []client.Message) error {
	var names []string
	for _, m := range messages {
		var change struct {
			Name     string `json:"name"`
			Category string `json:"category"`
			Event    string `json:"event"` // put or deleted
		}
		if json.Unmarshal(m.Content, &change) == nil &&
			(l.options.Category == "" || change.Category == l.options.Category) {
			names = append(names, change.Name)
		}
	}
	return l.read(ctx, names)
}

func (l *LiveSettings) read(ctx context.Context, names []string) error {
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		s, err := l.client.Setting(ctx, name)
		switch {
		case errors.Is(err, ErrNoSetting), errors.Is(err, ErrInvalidID):
			l.set(name, nil)
		case err != nil:
			return err
		default:
			l.set(name, &s)
		}
	}
	return nil
}

// set stores a setting in memory, or removes it if it is nil, and reports a change.
func (l *LiveSettings) set(name string, now *Setting) {
	l.mu.Lock()
	before, ok := l.all[name]
	if now == nil {
		delete(l.all, name)
	} else {
		l.all[name] = *now
	}
	l.mu.Unlock()
	if ok && now != nil && same(before, *now) || !ok && now == nil {
		return
	}
	l.options.Changed(name, now)
}

func same(a, b Setting) bool {
	values := a.Value == b.Value || a.Value != nil && b.Value != nil && *a.Value == *b.Value
	a.Value, b.Value = nil, nil
	return values && a == b
}
