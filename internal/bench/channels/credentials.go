package channels

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tidemark-dev/tidemark/access/keys"
	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
)

// sender is how publishes are sent whose cost is compared.
type sender struct {
	name       string
	server     *target.Process
	credential string
	limit      time.Duration // what it may cost more than without a credential; 0: it has none
	rounds     []float64     // CPU seconds of the server per publish
}

// highLimits are limits that a user doesn't reach here. They are counted, as in any service.
const highLimits = "requests=1000000/s,publishedBytes=1GiB/s,waits=100,tickets=60/m,newChannels=1000000/s,newSubscribers=600/m"

// Credentials measures what a credential adds to a publish: an API key, and a JSON Web Token that the server has seen before.
// The same publishes go to an open service and to one that requires credentials, on the same Redis, in turns.
func Credentials(ctx context.Context, s target.Settings, r *report.Report) error {
	u, err := target.Start(ctx, s.Binary)
	if err != nil {
		return err
	}
	defer u.Stop()
	dir, err := os.MkdirTemp("", "tidemark-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	key, token, args, err := makeCredentials(dir)
	if err != nil {
		return fmt.Errorf("make credentials: %w", err)
	}
	closed, err := u.AddServer(ctx, args...)
	if err != nil {
		return err
	}
	if _, err := load.Once(ctx, closed.HTTP, load.Request(http.MethodGet, "/v1/info", "")); err == nil {
		return errors.New("the server needs no credentials")
	}
	senders := []*sender{
		{name: "nothing, to an open service", server: u.Server},
		{name: "an API key", server: closed, credential: key, limit: 5 * time.Microsecond},
		{name: "a JSON Web Token seen before", server: closed, credential: token, limit: 8 * time.Microsecond},
	}
	for round := range s.Rounds {
		for i, one := range senders {
			if err := u.Redis.Empty(ctx); err != nil {
				return err
			}
			seconds, err := one.measure(ctx, s.Requests, fmt.Sprintf("%d-%d", round, i))
			if err != nil {
				return fmt.Errorf("publish with %s: %w", one.name, err)
			}
			one.rounds = append(one.rounds, seconds)
		}
	}
	printCredentials(r, senders)
	return nil
}

// measure returns the CPU seconds of the server per publish.
func (s *sender) measure(ctx context.Context, n int, name string) (float64, error) {
	header := ""
	if s.credential != "" {
		header = "Authorization: Bearer " + s.credential + "\r\n"
	}
	before, err := s.server.CPU()
	if err != nil {
		return 0, err
	}
	if _, err := load.Repeat(ctx, s.server.HTTP, n, func(n int) []byte {
		return fmt.Appendf(nil, "%s /v1/channels/bench-%d/messages/p%s-%d HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s",
			http.MethodPut, n%channels, name, n, header, len(content), content)
	}); err != nil {
		return 0, err
	}
	after, err := s.server.CPU()
	return (after - before).Seconds() / float64(n), err
}

func printCredentials(r *report.Report, senders []*sender) {
	r.Printf("\n## What a credential costs\n\nA publish of %d bytes, in turns; the differences are those within a round.\n\n"+
		"| publish with | server CPU | more than without | goal | |\n|---|---:|---:|---:|---|\n", contentBytes)
	open := senders[0].rounds
	for _, s := range senders {
		var more []float64
		for i, seconds := range s.rounds {
			more = append(more, seconds-open[i])
		}
		extra := time.Duration(report.Median(more) * float64(time.Second))
		cost := time.Duration(report.Median(append([]float64(nil), s.rounds...)) * float64(time.Second))
		if s.limit == 0 {
			r.Printf("| %s | %s | | | |\n", s.name, tenths(cost))
			continue
		}
		r.Printf("| %s | %s | %s | %s | %s |\n", s.name, tenths(cost), tenths(extra), report.AtMostMicros(s.limit), report.Verdict(extra <= s.limit))
		report.Progress("a publish with %s: %s more", s.name, tenths(extra))
	}
}

func tenths(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1000) }

// makeCredentials writes the files with which a server knows one API key and one JSON Web Token, and returns its arguments.
func makeCredentials(dir string) (key, token string, args []string, err error) {
	grants := json.RawMessage(`[{"actions":["publish","subscribe"],"channels":["bench-*"]}]`)
	record, key, err := keys.Generate(keys.NewKey{Grants: grants}, time.Now())
	if err != nil {
		return "", "", nil, err
	}
	keys, err := json.Marshal([]keys.Key{record})
	if err != nil {
		return "", "", nil, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "", "", nil, err
	}
	claims := jwt.MapClaims{"sub": "bench", "iss": "https://issuer.example", "exp": time.Now().Add(24 * time.Hour).Unix(), "tidemark": grants}
	if token, err = jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims).SignedString(private); err != nil {
		return "", "", nil, err
	}
	file, pemFile := filepath.Join(dir, "keys.json"), filepath.Join(dir, "token.pem")
	if err := os.WriteFile(file, keys, 0o600); err != nil {
		return "", "", nil, err
	}
	err = os.WriteFile(pemFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600)
	return key, token, []string{
		"--api-keys", file, "--jwt-keys", pemFile, "--jwt-algorithms", "EdDSA", "--user-limits", highLimits,
	}, err
}
