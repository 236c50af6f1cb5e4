package leases_test

import (
	"os"
	"testing"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		work() // this process is the holder of TestAPausedHolder
		return
	}
	redistest.Main(m)
}
