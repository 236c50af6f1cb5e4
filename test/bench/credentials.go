package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/process"
	"github.com/tidemark-dev/tidemark/test/report"
)

// sender is a way to send publishes whose cost is compared.
type sender struct {
	name    string
	server  *service
	headers []string
	limit   time.Duration // its allowed extra cost over no credential; 0: no goal
	rounds  []senderCost
}

// senderCost is CPU time of the server per publish: all of it, and the part that the credential adds.
type senderCost struct{ all, extra time.Duration }

// highLimits are limits that a user doesn't reach here. Requests count as in any service.
const highLimits = "requests=1000000/s,publishedBytes=1GiB/s,waits=100,tickets=60/m,newChannels=1000000/s," +
	"newSubscribers=600/m"

// credentials measures what a credential adds to a publish: an API key, and a JSON Web Token that the server has seen
// before. The same publishes go to an open service and to one that requires credentials, on the same Redis, in turns.
func credentials(b *bench) {
	u := b.start()
	defer u.stop()
	dir, err := process.TempDir(b.Context(), "bench-")
	b.Must(err)
	key, token, args := b.makeCredentials(dir)
	closed := u.addServer(args...)
	if closed.OK(b.Context(), "/v1/info") {
		b.Fatalf("the server needs no credentials")
	}
	senders := []*sender{
		{name: "nothing, to an open service", server: u.server},
		{name: "an API key", server: closed, headers: bearer(key), limit: 5 * time.Microsecond},
		{name: "a JSON Web Token seen before", server: closed, headers: bearer(token), limit: 8 * time.Microsecond},
	}
	for round := range u.rounds {
		for i, s := range senders {
			u.redis.empty()
			seconds := perCall(u.requests, s.server.cpu, func() {
				u.repeatAt(s.server.HTTP, u.requests, func(n int) []byte {
					path := fmt.Sprintf("/v1/channels/bench-%d/messages/p%d-%d-%d", n%channelCount, round, i, n)
					return load.Request(http.MethodPut, path, messageContent, s.headers...)
				})
			})
			cost := senderCost{all: time.Duration(seconds * float64(time.Second))}
			s.rounds = append(s.rounds, cost)
			s.rounds[round].extra = cost.all - senders[0].rounds[round].all
		}
	}
	b.printCredentials(senders)
}

func (b *bench) printCredentials(senders []*sender) {
	b.printf("\n## What a credential costs\n\nA publish of %d bytes, measured in turns; differences are computed "+
		"within a round.\n\n"+
		"| publish with | server CPU | more than without | goal | |\n"+
		"|---|---:|---:|---:|---|\n", contentBytes)
	for _, s := range senders {
		cost := report.Tenths(median(s.rounds, func(p senderCost) time.Duration { return p.all }))
		if s.limit == 0 {
			b.printf("| %s | %s | | | |\n", s.name, cost)
			continue
		}
		extra := median(s.rounds, func(p senderCost) time.Duration { return p.extra })
		b.printf("| %s | %s | %s | %s | %s |\n", s.name, cost, report.Tenths(extra), atMost(s.limit, report.Micros),
			report.Verdict(extra <= s.limit))
		progress("a publish with %s: %s more", s.name, report.Tenths(extra))
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
