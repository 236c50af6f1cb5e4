package records

import "context"

// SettingPut is a setting to be written.
type SettingPut struct {
	Name, Value string
	Want        Secrecy // "": as it is, or else Usual
	Usual       Secrecy
}

// Secrecy is whether a setting is secret.
type Secrecy string

// The values of Secrecy.
const (
	Secret Secrecy = "secret"
	Public Secrecy = "public"
)

// StoredSetting is a setting as it is stored.
type StoredSetting struct {
	Exists bool
	Value  string
	Is     Secrecy // of this value: secret unless it is known to be public
}

// SettingStore keeps settings. Its methods may be called by many goroutines.
type SettingStore interface {
	// Put writes a setting in the order of the package comment. It returns the resulting mark. Errors:
	// ErrManySettings.
	Put(ctx context.Context, p SettingPut) (Secrecy, error)
	// Delete removes a setting. It succeeds if there is none.
	Delete(ctx context.Context, name string) error
	// Read returns settings in the order of the names.
	Read(ctx context.Context, names []string) ([]StoredSetting, error)
	// Names returns the names of all settings, sorted. Some may have no value any more.
	Names(ctx context.Context) ([]string, error)
}
