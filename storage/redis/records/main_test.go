package records_test

import (
	"os"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// TestMain runs the tests, or what a test wants from this binary as another process.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(workerEnv) != "":
		work()
	case os.Getenv(writerEnv) != "":
		runWriter()
	default:
		redistest.Main(m)
	}
}
