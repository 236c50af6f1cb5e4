package wrap_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/wrap"
)

func TestLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 10, []string{""}},
		{"one two three", 7, []string{"one two", "three"}},
		{"one  two\nthree", 80, []string{"one two three"}},
		{"é é é é", 3, []string{"é é", "é é"}},
		{"a wordthatislonger b", 5, []string{"a", "wordthatislonger", "b"}},
	} {
		require.Equal(t, c.want, wrap.Lines(c.text, c.width), "%q", c.text)
	}
}

func TestParagraphs(t *testing.T) {
	t.Parallel()
	require.Equal(t, "one two\nthree\n\n  as  it  is\n\nfour\n",
		wrap.Paragraphs("one\ntwo three\n\n  as  it  is\n\nfour\n", 8))
}
