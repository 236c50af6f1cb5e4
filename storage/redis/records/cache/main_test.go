package cache_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
