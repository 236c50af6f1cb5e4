package e2e

import (
	"os/exec"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// shards runs a command on the shards of the topics.
func (s *site) shards(command string, args ...string) {
	s.t.Helper()
	args = append([]string{"shards", command, "--data-dir", s.data, "--cache", "topic"}, args...)
	out, err := exec.CommandContext(s.t.Context(), setting(s.t, "TIDEMARK_TEST_BINARY"), args...).CombinedOutput()
	require.NoError(s.t, err, "%s", out)
}

// node starts a node of a data centre, which holds a shard of the topics.
func (s *site) node(dc, host string) {
	s.t.Helper()
	startProgram(s.t, regexp.MustCompile(`msg="the node answers for (its shard)"`), setting(s.t, "TIDEMARK_TEST_BINARY"),
		"shard", "serve", "--data-dir", s.data, "--cache", "topic", "--dc", dc, "--host", host,
		"--listen", "127.0.0.1:0", "--admin-listen", "off")
}

// TestConsoleShards looks at a cache without a layout, at nodes that claim their shards, and at a reshard.
func TestConsoleShards(t *testing.T) {
	t.Parallel()
	s := startSite(t, "--cache-shards", "topic")
	w := browser(t, cuts)(s.console + "/console/shards")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("p", "The cache has no layout yet.")

	s.shards("layout", "--dc", "east", "--shards", "2")
	w.sees("span", "keys without a node")
	w.accessible("shards without nodes")
	s.node("east", "one")
	s.node("east", "two")
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
	s.shards("reshard", "--shards", "1", "--force")
	w.sees("li", "east: a layout of 1 shard, generation 2")
	w.sees("span", "1 of 1 shards answer in 1 data centre")
	require.True(t, w.kept())

	// another cache, by its name; and back
	w.do(chromedp.SendKeys(chromedp.CSS(`.page-head input`), "author"))
	w.click("Show")
	w.sees("h2", "author")
	w.click("All of the service")
	w.sees("h2", "topic")

	// the overview lists servers, and leads to the nodes
	w.follows("Overview")
	w.do(chromedp.WaitVisible(chromedp.Search(`//section//a[@href="/console/shards"][.="Nodes of shards"]`)))
}
