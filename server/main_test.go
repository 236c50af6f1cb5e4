package server_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(benchEnv); kind != "" {
		if err := serveBench(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	redistest.Main(m)
}
