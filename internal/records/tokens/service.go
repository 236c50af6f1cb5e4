package tokens

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// DefaultProviders are the OAuth providers of a service unless Options names others.
var DefaultProviders = []string{"google", "github", "facebook", "twitter", "telegram", "vk", "yandex"}

// MaxProviders is how many OAuth providers there may be.
const MaxProviders = 64

var providerPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Options configures a Service.
type Options struct {
	Store     Store
	Sealer    Sealer   // nil: tokens of providers aren't kept
	Providers []string // nil: DefaultProviders
}

// Service issues, takes and keeps tokens. Any number of goroutines may use it.
type Service struct {
	store     Store
	sealer    Sealer
	providers []string
}

// New returns a service. Its error names the invalid provider.
func New(o Options) (*Service, error) {
	if o.Providers == nil {
		o.Providers = DefaultProviders
	}
	if err := CheckProviders(o.Providers); err != nil {
		return nil, err
	}
	return &Service{store: o.Store, sealer: o.Sealer, providers: slices.Clone(o.Providers)}, nil
}

// CheckProvider returns an error if the name of an OAuth provider is invalid.
func CheckProvider(name string) error {
	if !providerPattern.MatchString(name) {
		return fmt.Errorf("%.64q isn't a provider, such as google: 1 to 64 lower-case letters, digits, - and _", name)
	}
	return nil
}

// CheckProviders returns an error if a list of OAuth providers is invalid.
func CheckProviders(names []string) error {
	if len(names) > MaxProviders {
		return fmt.Errorf("%d providers, at most %d are possible", len(names), MaxProviders)
	}
	for i, name := range names {
		if err := CheckProvider(name); err != nil {
			return err
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("duplicate provider %q", name)
		}
	}
	return nil
}

// checkOwner returns an error if a user or provider is invalid, or ErrNoKeyset.
func (s *Service) checkOwner(of Owner) error {
	if s.sealer == nil {
		return ErrNoKeyset
	}
	return s.checkNames(of)
}

func (s *Service) checkNames(of Owner) error {
	return cmp.Or(records.CheckID("user", of.User), s.checkProvider(of.Provider))
}

func (s *Service) checkProvider(name string) error {
	if !slices.Contains(s.providers, name) {
		return invalid("provider", fmt.Sprintf("%.64q is none of the service's OAuth providers (%s)", name,
			strings.Join(s.providers, ", ")))
	}
	return nil
}

// hash returns the form in which the store keeps a secret.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// attemptOf returns the name of an attempt: a new one if the caller gives none.
func attemptOf(name string) (string, error) {
	if name == "" {
		return id.New(), nil
	}
	if err := records.CheckID("attempt", name); err != nil {
		return "", err
	}
	return name, nil
}
