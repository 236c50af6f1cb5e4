package limits

import (
	"testing"

	"github.com/tidemark-dev/tidemark/internal/access"
)

// BenchmarkRequest measures the cost that limits add to a request of a key without limits, and of a user.
func BenchmarkRequest(b *testing.B) {
	l := New(Options{Users: parse(b, "requests=1000000/s,waits=100"), Addresses: parse(b, "off")})
	for name, p := range map[string]*access.Principal{"key": {Kind: access.APIKey, Credential: "k"},
		"user": user("ann")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := l.Client(p, "192.0.2.1:1")
				ctx := With(b.Context(), c)
				_ = c.Request(ctx)
				From(ctx).Standing()
			}
		})
	}
}
