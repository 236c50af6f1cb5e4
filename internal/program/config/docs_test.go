package config

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of options into the page that documents them")

const optionsPage = "../../../docs/options.md"

// TestDocumentationOfOptions compares the options on the page with those of the program.
func TestDocumentationOfOptions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(optionsPage)
	require.NoError(t, err)
	part := regexp.MustCompile(`(?s)(<!-- options: .*? -->\n)(.*)(<!-- end of options -->)`)
	require.Regexp(t, part, string(page))
	if *update {
		written := part.ReplaceAllStringFunc(string(page), func(old string) string {
			return part.FindStringSubmatch(old)[1] + Table() + part.FindStringSubmatch(old)[3]
		})
		require.NoError(t, os.WriteFile(optionsPage, []byte(written), 0o644))
		return
	}
	require.Equal(t, Table(), part.FindStringSubmatch(string(page))[2])
}

// TestDocumentationOfTheFile reads the YAML example of the page.
func TestDocumentationOfTheFile(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(optionsPage)
	require.NoError(t, err)
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(string(page))
	require.NotNil(t, example)
	dir := t.TempDir()
	yaml := strings.ReplaceAll(example[1], "/run/secrets/redis", filepath.Join(dir, "redis"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis"), []byte("secret\n"), 0o600))
	c, err := load(t, yaml, nil, nil)
	require.NoError(t, err)
	require.Len(t, c.Rules, 3)
	require.Equal(t, "mm1:", c.Redis.KeyPrefix)
}

// TestDocumentationOfRules reads the YAML examples of the page on security: rules of channels, and a file of API keys.
func TestDocumentationOfRules(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/security.md")
	require.NoError(t, err)
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, examples)
	for _, example := range examples {
		if strings.HasPrefix(example[1], "- ") {
			keys := filepath.Join(t.TempDir(), "keys.yaml")
			require.NoError(t, os.WriteFile(keys, []byte(example[1]), 0o600))
			_, err := load(t, "apiKeys: "+keys, nil, nil)
			require.NoError(t, err, example[1])
			continue
		}
		c, err := load(t, example[1], nil, nil)
		require.NoError(t, err, example[1])
		require.NotEmpty(t, c.Access.Rules, example[1])
	}
}

// TestHelpNamesEverything checks that the help text has every name of every option.
func TestHelpNamesEverything(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		command
		write func(w io.Writer, width int) error
	}{{serve, WriteHelp}, {node, WriteNodeHelp}} {
		var help strings.Builder
		require.NoError(t, of.write(&help, 80))
		words := strings.Join(strings.Fields(help.String()), " ")
		for _, o := range of.options(new(Config)) {
			require.Contains(t, words, of.flag(o)+" "+o.kind+" "+o.help+" ("+o.env(), o.name)
		}
	}
}
