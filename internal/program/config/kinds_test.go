package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
)

const shop = `
kinds:
  caches:
  - {name: product, key: "product:{<id>}", secret: true}
  - {name: likes, key: "likes:{<user>}", value: ids}
  - {name: liked-by, key: "liked-by:{<id>}", value: ids}
  notifications:
    follow: [{name: product, follows: likes, followers: liked-by}]
`

// TestKindsOfOptions: other options name kinds of the table, whichever source it is from.
func TestKindsOfOptions(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		shop + "keyMetrics: [product, session, lease]": "",
		shop + "keyMetrics: [author]":                  `tidemark.yaml:9: keyMetrics: "author" is no kind of keys`,
		"keyMetrics: [product]":                        `tidemark.yaml:1: keyMetrics: "product" is no kind of keys`,
		shop + "cacheShards: product":                  "",
		shop + "cacheShards: author":                   `tidemark.yaml:9: cacheShards: "author": the kind can't be read`,
		shop + "cacheShards: produkt":                  "did you mean product?",
		"kinds:\ncacheShards: author":                  "",
		"kinds: []":                                    `tidemark.yaml:1: kinds: must be a mapping, not a list`,
		"kinds: {caches: [{name: a, key: b}]}":         `tidemark.yaml:1: kinds.caches[0].key: is "b", it must be`,
	} {
		_, err := load(t, yaml, nil, nil)
		if want == "" {
			require.NoError(t, err, yaml)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	_, err := load(t, "keyMetrics: [a]", []string{`TIDEMARK_KINDS={"caches":[{"name":"a","key":"a:{<id>}"}]}`}, nil)
	require.NoError(t, err)
	c, err := loadFor(t, node, shop+"shardCache: product\nshardDc: a", nil, nil)
	require.NoError(t, err)
	require.Equal(t, "product", c.Records.Site.Table.Caches()[0].Name)
}

// TestPlainKeys: every command that reads the table of kinds has it with the form of keys.
func TestPlainKeys(t *testing.T) {
	t.Parallel()
	for _, of := range []command{serve, node} {
		c, err := loadFor(t, of, shop+"recordsKeys: plain\nshardCache: product\nshardDc: a", nil, nil)
		require.NoError(t, err)
		require.True(t, c.Records.PlainKeys)
		require.Equal(t, "product:7", c.Records.Site.Table.Caches()[0].KeyOf("7"))
		require.Equal(t, "likes:ann", c.Records.Site.Sources[0].Follows.KeyOf("ann"))
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddRedisFlags(flags)
	require.NoError(t, flags.Parse([]string{"--records-keys=plain"}))
	c, err := LoadRedis(flags, nil)
	require.NoError(t, err)
	require.Equal(t, "session", c.Records.Site.Table.Of("session:ann:00").Name)

	c, err = load(t, "recordsKeys: plain\nrecords: off", nil, nil)
	require.NoError(t, err)
	require.False(t, c.Records.PlainKeys, "a Cluster will do")
	_, err = load(t, "recordsKeys: bare", nil, nil)
	require.ErrorContains(t, err, `recordsKeys: "bare" isn't braces or plain`)
	const nested = "kinds: {caches: [{name: a, key: 'a:{<id>}'}, {name: b, key: 'a:b:{<id>}'}]}"
	_, err = load(t, nested, nil, nil)
	require.NoError(t, err)
	_, err = load(t, nested+"\nrecordsKeys: plain", nil, nil)
	require.ErrorContains(t, err, "recordsKeys: is plain, but kinds.caches[1].key: a:b:{<id>} without braces can be a key "+
		"of a, which is a:<id>")
}

// TestShardsOfASite: the table has kinds in shards, and the option adds others.
func TestShardsOfASite(t *testing.T) {
	t.Parallel()
	const shards = `{caches: [{name: product, key: "product:{<id>}", shards: true}, {name: page, key: "page:{<id>}"}]}`
	for yaml, want := range map[string][]string{
		"kinds: " + shards: {"product"}, "kinds: " + shards + "\ncacheShards: [page, product]": {"page", "product"},
		"kinds: " + shards + "\nrecords: off": nil, "": nil,
	} {
		c, err := load(t, yaml, nil, nil)
		require.NoError(t, err)
		require.Equal(t, want, c.Shards.Reads.Caches)
		require.Equal(t, want != nil, slices.ContainsFunc(c.ChannelRules(), func(r channel.Rule) bool {
			return r.Pattern == tier.ChannelRule.Pattern
		}))
	}
}

// TestNotificationsOfASite: the schema of notifications, and what sessions may read, follow the table.
func TestNotificationsOfASite(t *testing.T) {
	t.Parallel()
	require.JSONEq(t, defaultSessionGrants, sessionGrants(site.Community()))
	file := filepath.Join(t.TempDir(), "text.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"required":["text"]}`), 0o600))
	for yaml, refused := range map[string]string{
		"": `{"text":"hi"}`, shop: "", shop + "    schema: notification": `{"text":"hi"}`,
		shop + "    schema: " + file: `{"type":"mention"}`,
	} {
		c, err := load(t, yaml, nil, nil)
		require.NoError(t, err)
		policies, err := channel.NewPolicies(c.Channel, c.ChannelRules())
		require.NoError(t, err)
		policy, err := policies.For("notifications:ann")
		require.NoError(t, err)
		schema := policy.Schema
		if refused == "" {
			require.Nil(t, schema)
			continue
		}
		_, err = schema.Check([]byte(refused))
		require.Error(t, err, yaml)
	}
	_, err := load(t, "kinds: {notifications: {schema: /nowhere/a.json}}", nil, nil)
	require.ErrorContains(t, err, "kinds.notifications.schema: open /nowhere/a.json")

	c, err := load(t, shop, nil, nil)
	require.NoError(t, err)
	want, err := access.ParseGrants([]byte(`[{"actions":["subscribe","describe"],"channels":["notifications:{sub}",` +
		`"notifications:global","notifications:product:*"]},{"actions":["read"],"records":["channels-of/{sub}"]}]`))
	require.NoError(t, err)
	require.Equal(t, want, c.Records.Sessions.Grants)
}
