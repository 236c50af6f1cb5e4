package records_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/site"
)

var update = flag.Bool("update", false, "rewrite the table of the documentation")

// TestPage: the page has the table of kinds.
func TestPage(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../../docs/records.md", "<!-- kinds: go test ./internal/records -run TestPage -update -->\n",
		"<!-- end of kinds -->\n"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	table, after, found := strings.Cut(rest, end)
	require.True(t, found)
	if *update {
		table = kinds()
		require.NoError(t, os.WriteFile(page, []byte(before+begin+table+end+after), 0o644))
	}
	require.Equal(t, kinds(), table, "write it with: go test ./internal/records -run TestPage -update")
}

func kinds() string {
	var b strings.Builder
	b.WriteString("| kind | key | type | value | longest TTL | most bytes | Redis |\n|---|---|---|---|---|---|---|\n")
	for _, k := range site.Community().Table.Records() {
		form := k.Form
		if k.Secret {
			form += "; secret"
		}
		ttl := "permanent: " + k.Why
		if k.TTL > 0 {
			ttl = duration(k.TTL)
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s | %s | %s |\n", k.Name, k.Pattern, k.Type, form, ttl,
			byteSize(k.MaxBytes), k.Instance)
	}
	return b.String()
}

func duration(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d%unit.size == 0 {
			return fmt.Sprintf("%d %s", d/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

func byteSize(n int) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprint(n)
}
