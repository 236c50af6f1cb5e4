package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/test/report"
)

// sender is a way to send publishes whose cost is compared.
type sender struct {
	name    string
	server  *service
	headers []string
	limit   time.Duration // its allowed extra cost over no credential; 0: no goal
}

// highLimits are limits that a user doesn't reach here. Requests count as in any service.
const highLimits = "requests=1000000/s,publishedBytes=1GiB/s,waits=100,tickets=60/m,newChannels=1000000/s," +
	"newSubscribers=600/m"

// credentials measures what a credential adds to a publish: an API key, and a JSON Web Token that the server has seen
// before. The same publishes go to an open service and to one that requires credentials, on the same Redis, in turns.
func credentials(b *bench) {
	u := b.start()
	defer u.stop()
	key, token, args := b.makeCredentials(b.tempDir())
	closed := u.addServer(args...)
	if closed.OK(b.Context(), "/v1/info") {
		b.Fatalf("the server needs no credentials")
	}
	senders := []sender{
		{name: "nothing, to an open service", server: u.server},
		{name: "an API key", server: closed, headers: bearer(key), limit: 5 * time.Microsecond},
		{name: "a JSON Web Token seen before", server: closed, headers: bearer(token), limit: 8 * time.Microsecond},
	}
	costs := turns(u.rounds, senders, func(round int, s sender) time.Duration {
		u.redis.empty()
		publish := publishes("bench", fmt.Sprint("p", round), s.headers...)
		return perCall(u.requests, s.server.cpu, func() { u.repeatAt(s.server.HTTP, u.requests, publish) })
	})
	b.printf("A publish of %d bytes, measured in turns; differences are computed within a round.\n\n", contentBytes)
	b.table("publish with | server CPU: | more than without: | goal: | ")
	for i, s := range senders {
		cost := report.Tenths(report.Quantile(costs[i], 0.5))
		if s.limit == 0 {
			b.row(s.name, cost, "", "", "")
			continue
		}
		extras := make([]time.Duration, u.rounds)
		for round := range extras {
			extras[round] = costs[i][round] - costs[0][round]
		}
		extra := report.Quantile(extras, 0.5)
		b.row(s.name, cost, report.Tenths(extra), atMost(s.limit, report.Micros), extra <= s.limit)
	}
}

func bearer(credential string) []string {
	return []string{"Authorization: Bearer " + credential + "\r\n"}
}

// makeCredentials writes the files with one API key and the key of one JSON Web Token, and returns the server's
// arguments.
func (b *bench) makeCredentials(dir string) (key, token string, args []string) {
	grants := json.RawMessage(`[{"actions":["publish","subscribe"],"channels":["bench-*"]}]`)
	record, key, err := keys.Generate(keys.NewKey{Grants: grants}, time.Now())
	b.Must(err)
	list, err := json.Marshal([]keys.Key{record})
	b.Must(err)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	b.Must(err)
	der, err := x509.MarshalPKIXPublicKey(public)
	b.Must(err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: private}, nil)
	b.Must(err)
	token, err = jwt.Signed(signer).Claims(map[string]any{
		"sub": "bench", "iss": "https://issuer.example", "exp": time.Now().Add(24 * time.Hour).Unix(), "tidemark": grants,
	}).Serialize()
	b.Must(err)
	file, pemFile := filepath.Join(dir, "keys.json"), filepath.Join(dir, "token.pem")
	b.Must(os.WriteFile(file, list, 0o600))
	b.Must(os.WriteFile(pemFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	return key, token, []string{
		"--api-keys", file, "--jwt-keys", pemFile, "--jwt-algorithms", "EdDSA", "--user-limits", highLimits,
	}
}
