package diagnose_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/diagnose"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// optionalRights are the rights that docs/deployment.md lists for single options and commands.
var optionalRights = []string{"dbsize", "scan", "type", "memory|usage", "hsetnx", "unlink", "publish", "cluster|nodes"}

// indirectRights are the rights for commands that no script and no builder names.
var indirectRights = []string{"eval", "evalsha", "eval_ro", "evalsha_ro", "cluster|shards", "ssubscribe",
	"sunsubscribe", "multi", "exec"}

// TestRightsAreUsed: the rights are those for the commands of all scripts and of all stores, and no others.
func TestRightsAreUsed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	script := regexp.MustCompile(`redis\.p?call\('([A-Z]+)'(?:, '(STREAM)')?|\b(?:call|may)\('([A-Z]+)'`)
	builder := regexp.MustCompile(`\bB\(\)\.([A-Z][A-Za-z]+)\(`)
	require.NoError(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		pattern := builder
		switch {
		case err != nil, strings.HasSuffix(path, "_test.go"), strings.Contains(path, "storetest"):
			return err
		case strings.HasSuffix(path, ".lua"):
			pattern = script
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, name := range pattern.FindAllStringSubmatch(string(text), -1) {
			used[strings.ToLower(strings.Join(name[1:], ""))] = true
		}
		return nil
	}))
	is := func(right string) bool {
		return used[strings.ReplaceAll(right, "|", "")] || slices.Contains(indirectRights, right)
	}
	var granted []string
	for _, rule := range diagnose.Rights("") {
		if right, ok := strings.CutPrefix(rule, "+"); ok && right != "@connection" {
			require.True(t, is(right), "nothing uses %s", right)
			granted = append(granted, right)
		}
	}
	for _, right := range append(granted, optionalRights...) {
		delete(used, strings.ReplaceAll(right, "|", ""))
	}
	for _, command := range []string{"ping", "arbitrary", "xinfo", "client", "clientcaching", "clienttracking"} {
		delete(used, command)
	}
	require.Empty(t, used, "no right is for these commands")
}

// TestExamineRights: Examine names exactly the rights that a user lacks, and writes nothing.
func TestExamineRights(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	set := func(name string, rules ...string) {
		require.NoError(t, n.Do(t, append([]string{"ACL", "SETUSER", name, "on", ">secret"}, rules...)...).Error())
	}
	rights := diagnose.Rights("mm1:")
	set("all", rights...)
	for name, lacks := range map[string][]string{
		"all": nil, "keys": {"~mm1:*"}, "topics": {"&mm1:*"}, "three": {"+hget", "+time", "+xinfo|stream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(lacks) > 0 {
				set(name, slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return slices.Contains(lacks, r) })...)
			}
			c := storetest.Connect(t, redis.Options{URL: "redis://" + name + ":secret@" + n.Addr(), KeyPrefix: "mm1:"})
			found, err := diagnose.Examine(t.Context(), c)
			require.NoError(t, err)
			require.Len(t, found.Primaries, 1)
			require.NoError(t, found.Primaries[0].Err)
			want := ""
			if len(lacks) > 0 {
				want = "ACL SETUSER " + name + " " + strings.Join(lacks, " ")
			}
			require.Equal(t, want, found.Primaries[0].Grant)
			require.Positive(t, found.Primaries[0].Latency)
			size, err := n.Do(t, "DBSIZE").AsInt64()
			require.NoError(t, err)
			require.Zero(t, size)
		})
	}
}

// An examination whose context ends at any time leaves no connection in a transaction.
func TestExamineUntilCanceled(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	c := storetest.Connect(t, redis.Options{URL: n.URL()})
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
		_, _ = diagnose.Examine(ctx, c) // it may have ended before
		cancel()
	}
	found, err := diagnose.Examine(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, found.Primaries[0].Err)
	require.Empty(t, found.Primaries[0].Grant)
}

// A Cluster of which a part of the slots has no primary.
func TestExamineCoverage(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Options{Replicas: -1})
	for _, n := range cluster.Nodes() {
		storetest.Set(t, n, "cluster-require-full-coverage", "no")
	}
	c := storetest.Connect(t, redis.Options{URL: strings.Join(cluster.Addrs(), ",")})
	found, err := diagnose.Examine(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, found.Primaries, 3)
	require.Empty(t, found.Uncovered)
	for _, n := range cluster.Nodes() {
		require.NoError(t, n.Do(t, "CLUSTER", "DELSLOTS", "0", "1", "7").Error())
	}
	found, err = diagnose.Examine(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, "0-1,7", found.Uncovered)
}
