package cache_test

import (
	"os"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(writerEnv) != "" {
		runWriter() // this process is a writer of TestKilledWriter
		return
	}
	redistest.Main(m)
}
