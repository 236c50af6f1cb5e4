package diagnose

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// places are the folders of storage/redis whose commands an ability has. Those of folders without a row belong to the
// abilities that every part rests on.
var places = map[string]Ability{
	"channels": Channels, "lua/channels": Channels, "lua/leases": Channels, "lua/shared": Channels, "leases": Channels,
	"access": Keys, "lua/access": Keys,
	"queues": Matchmaking, "lua/queues": Matchmaking,
	"records": Records, "lua/records": Records,
	"shards": ReadTier, "lua/shards": ReadTier,
}

var (
	// optionalRights are those that docs/deployment.md lists for single options and commands.
	optionalRights = []string{"dbsize", "scan", "type", "memory|usage", "publish", "cluster|nodes", "slowlog|get"}
	// byLibrary are commands that the client library sends by itself.
	byLibrary = []string{"eval", "evalsha", "eval_ro", "evalsha_ro", "cluster|shards", "ssubscribe", "sunsubscribe",
		"multi", "exec"}
	// withoutRight are names of builders for commands of @connection, and of those that make any command.
	withoutRight = []string{"ping", "arbitrary", "client", "clientcaching", "clienttracking"}
)

// TestCommandsOfAbilities: an ability has the commands of its scripts and stores, and no others.
func TestCommandsOfAbilities(t *testing.T) {
	t.Parallel()
	used := commandsUsed(t)
	all := named(byLibrary)
	for _, commands := range used {
		maps.Copy(all, commands)
	}
	common := named(slices.Concat(optionalRights, withoutRight)) // to all parts
	for _, u := range uses {
		if used[u.ability] == nil {
			maps.Copy(common, named(strings.Fields(u.rules)))
		}
	}
	for _, u := range uses {
		rules := named(strings.Fields(u.rules))
		for rule := range rules {
			has := all
			if used[u.ability] != nil {
				has = used[u.ability]
			}
			require.True(t, has[rule], "%s doesn't use %s", u.ability, rule)
		}
		for command := range used[u.ability] {
			require.True(t, rules[command] || common[command], "%s uses %s", u.ability, command)
		}
	}
	for command := range all {
		require.True(t, common[command] || named(allRules())[command], "no right is for %s", command)
	}
}

// TestDocumentedAbilities: the page has each ability with its commands and what doesn't work without it.
func TestDocumentedAbilities(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/which-redis.md")
	require.NoError(t, err)
	for _, u := range uses {
		rules := "`" + strings.ReplaceAll(strings.ReplaceAll(u.rules, "|", `\|`), " ", "` `") + "`"
		row := regexp.MustCompile(`(?m)^\| ` + string(u.ability) + ` \| (.*) \| (.*) \|$`).FindSubmatch(page)
		require.NotNil(t, row, "the row of %s", u.ability)
		require.True(t, strings.HasPrefix(string(row[1]), rules), "%s: the page has %s", u.ability, row[1])
		require.Contains(t, string(row[2]), cmp.Or(u.without, notWorking))
	}
}

// named returns a set of commands as builders and scripts name them, by their rules.
func named(rules []string) map[string]bool {
	set := map[string]bool{}
	for _, rule := range rules {
		set[strings.ReplaceAll(rule, "|", "")] = true
	}
	return set
}

var (
	inScript  = regexp.MustCompile(`redis\.p?call\('([A-Z]+)'(?:, '(STREAM)')?|\b(?:call|may|read)\('([A-Z]+)'`)
	byBuilder = regexp.MustCompile(`\bB\(\)\.([A-Z][A-Za-z]+)\(`)
)

// commandsUsed returns the commands of scripts and stores, in lower case, by the ability of their folders.
func commandsUsed(t *testing.T) map[Ability]map[string]bool {
	t.Helper()
	used := map[Ability]map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		pattern := byBuilder
		switch {
		case err != nil, strings.HasSuffix(path, "_test.go"), strings.Contains(path, "storetest"):
			return err
		case strings.HasSuffix(path, ".lua"):
			pattern = inScript
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var ability Ability
		for place, of := range places {
			if strings.HasPrefix(path, "../"+place+"/") {
				ability = of
			}
		}
		for _, name := range pattern.FindAllStringSubmatch(string(text), -1) {
			if used[ability] == nil {
				used[ability] = map[string]bool{}
			}
			used[ability][strings.ToLower(strings.Join(name[1:], ""))] = true
		}
		return nil
	}))
	return used
}
