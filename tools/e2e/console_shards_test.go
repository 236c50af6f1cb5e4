package e2e

import (
	"os/exec"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestConsoleShards looks at a cache without a layout, at nodes that claim their shards, and at a reshard.
func TestConsoleShards(t *testing.T) {
	t.Parallel()
	s := startSite(t, "--cache-shards", "topic")
	w := browser(t, cuts)(s.console + "/console/shards")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("p", "The cache has no layout yet.")

	shards := func(args ...string) {
		t.Helper()
		args = append([]string{"shards", args[0], "--data-dir", s.data, "--cache", "topic"}, args[1:]...)
		out, err := exec.CommandContext(t.Context(), setting(t, "TIDEMARK_TEST_BINARY"), args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	shards("layout", "--dc", "east", "--shards", "2")
	w.sees("span", "keys without a node")
	w.accessible("shards without nodes")
	node := func(host string) {
		t.Helper()
		startProgram(t, regexp.MustCompile(`msg="the node answers for (its shard)"`), setting(t, "TIDEMARK_TEST_BINARY"),
			"shard", "serve", "--data-dir", s.data, "--cache", "topic", "--dc", "east", "--host", host,
			"--listen", "127.0.0.1:0", "--admin-listen", "off")
	}
	node("one")
	node("two")
	w.sees("span", "complete")
	w.sees("span", "2 of 2 shards answer in 1 data centre")
	w.do(chromedp.WaitVisible(chromedp.CSS(`.shard.answers text`)))
	w.sees("li", "east: all shards answer")
	w.accessible("shards")

	// only the nodes that are searched for are listed
	w.do(chromedp.SendKeys(chromedp.CSS(`.panel .search input`), "two"))
	w.sees("span", "1 of 2")

	// the layout changes while the page is open
	w.mark()
	shards("reshard", "--shards", "1", "--force")
	w.sees("li", "east: a layout of 1 shard, generation 2")
	w.sees("span", "1 of 1 shards answer in 1 data centre")
	require.True(t, w.kept())

	// another cache, by its name; and back
	w.do(chromedp.SendKeys(chromedp.CSS(`.page-head input`), "author"))
	w.click("Show")
	w.sees("h2", "author")
	w.click("All of the service")
	w.sees("h2", "topic")
}
