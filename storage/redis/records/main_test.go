package records_test

import (
	"os"
	"testing"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestMain runs the tests, or the program for which a test started this binary.
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
