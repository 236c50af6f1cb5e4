package receipt_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/receipt"
)

func BenchmarkSign(b *testing.B) {
	ring := newKeyring(b, fixedKey(1))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ring.Sign(example)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	for _, bb := range []struct {
		name string
		ring *receipt.Keyring
	}{
		{"OneKey", newKeyring(b, fixedKey(1))},
		{"SecondKey", newKeyring(b, fixedKey(2), fixedKey(1))},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := bb.ring.Verify(golden, example.Channel, example.Subscriber); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
