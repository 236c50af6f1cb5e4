package shards_test

import (
	"os"
	"testing"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(nodeEnv); text != "" {
		serveNode(text)
		return
	}
	redistest.Main(m)
}
