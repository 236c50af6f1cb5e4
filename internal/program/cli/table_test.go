package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteTable(t *testing.T) {
	t.Parallel()
	const rows = "KEY\tDESCRIPTION\n1\twords that need more room\n22\tunbreakable-name\n"
	for _, c := range []struct {
		width int
		want  string
	}{
		{0, "KEY  DESCRIPTION\n1    words that need more room\n22   unbreakable-name\n"},
		{80, "KEY  DESCRIPTION\n1    words that need more room\n22   unbreakable-name\n"},
		{21, "KEY  DESCRIPTION\n1    words that need\n     more room\n22   unbreakable-name\n"},
		{1, "KEY  DESCRIPTION\n1    words that need\n     more room\n22   unbreakable-name\n"},
	} {
		var out bytes.Buffer
		require.NoError(t, writeTable(&out, rows, c.width))
		require.Equal(t, c.want, out.String(), "width %d", c.width)
	}
}

// TestTablesBreakBetweenWords checks that a cell is broken between words, or else after commas, and a very long word.
func TestTablesBreakBetweenWords(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, writeTable(&out, "KEY\tMAY\tDESCRIPTION\n012345678901\tpublish,queue,read\ta few words more\n", 44))
	require.Equal(t, `KEY           MAY             DESCRIPTION
012345678901  publish,queue,  a few words
              read            more
`, out.String())

	out.Reset()
	require.NoError(t, writeTable(&out, "A\tB\n1\t"+strings.Repeat("x", 100)+"\n", 40))
	require.Equal(t, "A  B\n1  "+strings.Repeat("x", longestWord)+"\n   "+strings.Repeat("x", 100-longestWord)+"\n", out.String())
}

func TestTablesAreOfPrintableText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, WriteTable(&out, "A\x1b[31m\tB\u202e\n"))
	require.Equal(t, "A\\x1b[31m  B\\u202e\n", out.String())
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain é 日本 \U0001f600": "plain é 日本 \U0001f600",
		"a\x1b]0;title\x07b":    `a\x1b]0;title\ab`,
		"a\nb\tc\r\x7f":         `a\nb\tc\r\x7f`,
		"\u202eabc\u2066\u200f": `\u202eabc\u2066\u200f`,
		"\u009b31m\u2028":       `\u009b31m\u2028`,
		"a\x9b31m":              "a\ufffd31m",
	} {
		require.Equal(t, want, Printable(text), "%q", text)
	}
}

func TestReportsArePrintable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	Terminal{Stderr: &out}.Report("unknown command %s", "\x1b[2J\u202egnp.exe")
	require.Equal(t, "tidemark: unknown command \\x1b[2J\\u202egnp.exe\n", out.String())
}

// TestRow: a text can't add cells or rows.
func TestRow(t *testing.T) {
	t.Parallel()
	type named string
	require.Equal(t, `a\tb\nc`+"\t7\t"+`x\x1b`+"\n", Row("%s\t%d\t%s\n", "a\tb\nc", 7, named("x\x1b")))
}
