package settings

import "context"

// Put is a setting that is to be kept.
type Put struct {
	Name, Value string
	Want        Secrecy // "": as it is, or else Usual
	Usual       Secrecy
}

// Secrecy says whether a setting is secret.
type Secrecy string

// What a setting can be.
const (
	Secret Secrecy = "secret"
	Public Secrecy = "public"
)

// Stored is a setting as it is kept.
type Stored struct {
	Exists bool
	Value  string
	Is     Secrecy // of this value: what isn't known to be public is secret
}

// Store keeps settings. Its methods may be called by many goroutines.
type Store interface {
	// Put keeps a setting, as the package's comment says. It returns what it is marked as then. Errors: ErrTooMany.
	Put(ctx context.Context, p Put) (Secrecy, error)
	// Delete removes a setting. It succeeds if there is none.
	Delete(ctx context.Context, name string) error
	// Read returns settings in the order of the names.
	Read(ctx context.Context, names []string) ([]Stored, error)
	// Names returns the names of all settings, sorted. Some may have no value any more.
	Names(ctx context.Context) ([]string, error)
}
