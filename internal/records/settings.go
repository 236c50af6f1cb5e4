package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/id"
)

const (
	// SettingsChannel is the channel on which each change is published.
	SettingsChannel = "settings"
	// MaxSettings is how many settings there may be.
	MaxSettings = 10_000
	// MaxSettingsPage is how many settings a page of a list may have, and how many one call imports.
	MaxSettingsPage = 100
)

// Errors that are returned to clients. Compare with errors.Is.
var (
	ErrNoSetting    = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoSetting, Detail: "there is no such setting"}
	ErrManySettings = &fault.Error{
		Kind: fault.Conflict, Slug: fault.SlugManySettings,
		Detail: fmt.Sprintf("there are %d settings, as many as there may be", MaxSettings),
	}
)

// SettingEvent is a kind of change of a setting.
type SettingEvent string

// The events.
const (
	WasPut     SettingEvent = "put"
	WasDeleted SettingEvent = "deleted"
)

// SettingChange is a message on the channel of settings. It never contains a value.
type SettingChange struct {
	Name     string       `json:"name"`
	Category Category     `json:"category"`
	Event    SettingEvent `json:"event"`
}

// Publisher publishes on channels.
type Publisher interface {
	Publish(ctx context.Context, r channel.PublishRequest) ([]channel.Published, error)
}

// Setting is a setting. If it is Masked, its value isn't shown.
type Setting struct {
	Name     string
	Category Category
	Secret   bool
	Masked   bool
	Value    string
}

// NewSetting is a setting to be written. If Secret is nil, an existing setting keeps its secrecy, and the name of a new
// one decides.
type NewSetting struct {
	Name, Value string
	Secret      *bool
}

// Settings keeps settings. Any number of goroutines may use it.
type Settings struct {
	store     SettingStore
	publisher Publisher
}

// NewSettings returns a service.
func NewSettings(store SettingStore, publisher Publisher) *Settings {
	return &Settings{store: store, publisher: publisher}
}

// Put writes a setting and publishes the change. Errors: ErrManySettings, one with fault.SlugInvalidID or
// SlugInvalidSetting, and those of the storage, after which a repeat completes it.
func (s *Settings) Put(ctx context.Context, n NewSetting) (Setting, error) {
	if err := n.Check(); err != nil {
		return Setting{}, err
	}
	is, err := s.store.Put(ctx, n.put())
	if err != nil {
		return Setting{}, fmt.Errorf("put setting %s: %w", n.Name, err)
	}
	done := shownSetting(n.Name, StoredSetting{Exists: true, Is: is}, false)
	return done, s.publish(ctx, WasPut, n.Name)
}

// Check checks the name and the value. Errors: those with fault.SlugInvalidID or SlugInvalidSetting.
func (n NewSetting) Check() error {
	if err := CheckSettingName(n.Name); err != nil {
		return err
	}
	if len(n.Value) > SettingKind.MaxBytes || !utf8.ValidString(n.Value) {
		return &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidSetting, Field: "value",
			Detail: fmt.Sprintf("the value of a setting is UTF-8 of at most %d bytes", SettingKind.MaxBytes),
		}
	}
	return nil
}

func (n NewSetting) put() SettingPut {
	p := SettingPut{Name: n.Name, Value: n.Value, Usual: secrecy(SecretByName(n.Name))}
	if n.Secret != nil {
		p.Want = secrecy(*n.Secret)
	}
	return p
}

func secrecy(secret bool) Secrecy {
	if secret {
		return Secret
	}
	return Public
}

// Delete removes a setting and publishes the change, also if there is none: the message of an earlier try may be
// missing. Errors: one with fault.SlugInvalidID, and those of the storage.
func (s *Settings) Delete(ctx context.Context, name string) error {
	if err := CheckSettingName(name); err != nil {
		return err
	}
	if err := s.store.Delete(ctx, name); err != nil {
		return fmt.Errorf("delete setting %s: %w", name, err)
	}
	err := s.publish(ctx, WasDeleted, name)
	if errors.Is(err, fault.ErrStorageFull) { // which a delete helps against: readers notice it at their next list
		return nil
	}
	return err
}

// publish publishes one event of some settings.
func (s *Settings) publish(ctx context.Context, e SettingEvent, names ...string) error {
	drafts := make([]channel.Draft, len(names))
	for i, name := range names {
		content, err := json.Marshal(SettingChange{Name: name, Category: CategoryOf(name), Event: e})
		if err != nil {
			return fmt.Errorf("encode a change of settings: %w", err)
		}
		drafts[i] = channel.Draft{ID: id.New(), Content: content}
	}
	if _, err := s.publisher.Publish(ctx, channel.PublishRequest{Channel: SettingsChannel, Drafts: drafts}); err != nil {
		return fmt.Errorf("publish a change of settings: %w", err)
	}
	return nil
}

// Get returns a setting. A secret is masked unless clear. Errors: ErrNoSetting, one with fault.SlugInvalidID, and the
// store's.
func (s *Settings) Get(ctx context.Context, name string, clear bool) (Setting, error) {
	if err := CheckSettingName(name); err != nil {
		return Setting{}, err
	}
	found, err := s.store.Read(ctx, []string{name})
	switch {
	case err != nil:
		return Setting{}, fmt.Errorf("get setting %s: %w", name, err)
	case !found[0].Exists:
		return Setting{}, ErrNoSetting
	}
	return shownSetting(name, found[0], clear), nil
}

// shownSetting returns a setting with a secret value masked unless clear.
func shownSetting(name string, stored StoredSetting, clear bool) Setting {
	shown := Setting{Name: name, Category: CategoryOf(name), Secret: stored.Is != Public, Value: stored.Value}
	if shown.Secret && !clear {
		shown.Masked, shown.Value = true, ""
	}
	return shown
}

// SettingList selects the settings of a page.
type SettingList struct {
	Category Category // "": all
	After    string   // the last name of the page before
	Limit    int      // most settings; 0 or more than MaxSettingsPage: MaxSettingsPage
	Clear    bool     // secrets are shown
}

// List returns a page of settings by name, and the After of the next page, "" if this is the last one. A page can be
// shorter than its limit, and even empty. Errors: one with fault.SlugInvalidQuery, and the store's.
func (s *Settings) List(ctx context.Context, l SettingList) (page []Setting, next string, err error) {
	if l.Category != "" && !slices.Contains(Categories(), l.Category) {
		return nil, "", &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidQuery, Field: "category",
			Detail: fmt.Sprintf("%.32q is none of the categories %v", l.Category, Categories()),
		}
	}
	names, err := s.store.Names(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("list settings: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return name <= l.After || l.Category != "" && CategoryOf(name) != l.Category
	})
	if l.Limit <= 0 || l.Limit > MaxSettingsPage {
		l.Limit = MaxSettingsPage
	}
	if len(names) > l.Limit {
		names = names[:l.Limit]
		next = names[l.Limit-1]
	}
	found, err := s.store.Read(ctx, names)
	if err != nil {
		return nil, "", fmt.Errorf("list settings: %w", err)
	}
	page = make([]Setting, 0, len(names))
	for i, name := range names {
		if found[i].Exists {
			page = append(page, shownSetting(name, found[i], l.Clear))
		}
	}
	return page, next, nil
}

// Import puts up to MaxSettingsPage settings, in order, and publishes the changes. All are checked before the first is
// written. Errors: those of Put, whose fields begin with the index of the setting.
func (s *Settings) Import(ctx context.Context, all []NewSetting) error {
	if len(all) > MaxSettingsPage {
		return &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidSetting, Field: "settings",
			Detail: fmt.Sprintf("%d settings, at most %d are allowed", len(all), MaxSettingsPage),
		}
	}
	for i, n := range all {
		if err := n.Check(); err != nil {
			return atSetting(i, err)
		}
	}
	var names []string
	for _, n := range all {
		if _, err := s.store.Put(ctx, n.put()); err != nil {
			return fmt.Errorf("import setting %s: %w", n.Name, err)
		}
		names = append(names, n.Name)
	}
	if len(names) == 0 {
		return nil
	}
	return s.publish(ctx, WasPut, names...)
}

// atSetting returns the error for a setting of a list.
func atSetting(i int, err error) error {
	var e *fault.Error
	if !errors.As(err, &e) {
		return err
	}
	clientErr := *e
	clientErr.Field = fmt.Sprintf("settings[%d].%s", i, e.Field)
	return &clientErr
}
