package jwt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	fetchTimeout = 5 * time.Second
	maxSetBytes  = 1 << 20
	maxRedirects = 3

	refreshPause = 5 * time.Minute  // between two fetches
	unknownPause = 10 * time.Second // between two fetches because of unknown keys
	retryPause   = 10 * time.Second // after a fetch that failed
	staleAfter   = 24 * time.Hour   // without a successful fetch, the keys are dropped
)

// set fetches a JSON Web Key Set.
type set struct {
	source  int
	url     *url.URL
	client  *http.Client
	flights singleflight.Group // of one fetch at a time

	mu     sync.Mutex
	tried  time.Time // the last fetch ended; zero: never
	loaded time.Time // the last fetch that succeeded
	failed uint64    // fetches
	err    error     // of the last fetch
}

func newSet(source int, text string, transport http.RoundTripper) (*set, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("a URL is malformed")
	case u.Host == "" || u.Fragment != "":
		return nil, fmt.Errorf("%s isn't the URL of a set of keys", u.Redacted())
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, fmt.Errorf("%s: keys are fetched with https, or with http from a loopback address", u.Redacted())
	}
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableKeepAlives = true // minutes lie between two fetches
		transport = t
	}
	return &set{source: source, url: u, client: &http.Client{
		Transport: transport, Timeout: fetchTimeout,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects || r.URL.Host != u.Host || r.URL.Scheme != u.Scheme {
				return errors.New("it redirects to another host, or too often")
			}
			return nil
		},
	}}, nil
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// name returns the address of the set without its user and query, which may be secret.
func (s *set) name() string { return s.url.Host + s.url.Path }

// get fetches the set.
func (s *set) get(ctx context.Context) (keys []*key, unusable []error, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	answer, err := s.client.Do(request)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) { // its text has the URL, which may contain a secret
			err = withURL.Err
		}
		return nil, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("status %d", answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxSetBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > maxSetBytes {
		return nil, nil, fmt.Errorf("it has more than %d bytes", maxSetBytes)
	}
	return parseSet(text, false)
}

// fetch fetches a set, unless that was tried within a pause, and waits for it until ctx ends. It returns the error of
// the last fetch.
func (v *Verifier) fetch(ctx context.Context, s *set, pause time.Duration) error {
	if recent, err := s.recent(pause); recent {
		return err
	}
	flight := s.flights.DoChan("", func() (any, error) {
		if recent, err := s.recent(pause); recent { // another flight ended in between
			return nil, err
		}
		keys, unusable, err := s.get(context.WithoutCancel(ctx)) // others may wait for it
		v.fetched(s, keys, unusable, err)
		return nil, err
	})
	select {
	case done := <-flight:
		return done.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// recent reports whether a fetch ended within a pause, and with which error.
func (s *set) recent(pause time.Duration) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.tried.IsZero() && time.Since(s.tried) < pause, s.err
}

// fetched stores the result of a fetch.
func (v *Verifier) fetched(s *set, keys []*key, unusable []error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := s.err == nil
	s.tried, s.err = time.Now(), err
	if err != nil {
		s.failed++
	}
	switch {
	case err == nil:
		s.loaded = s.tried
		v.replace(s.source, keys)
	case !s.loaded.IsZero() && time.Since(s.loaded) >= staleAfter:
		v.replace(s.source, nil)
	}
	where := s.name()
	switch {
	case err != nil && began:
		v.log.Error("cannot fetch the keys of tokens", "url", where, "error", err)
	case err == nil && !began:
		v.log.Info("keys of tokens fetched again", "url", where, "keys", len(keys))
	}
	if len(unusable) > 0 {
		v.log.Debug("keys of tokens that can't be used", "url", where, "error", errors.Join(unusable...))
	}
}
