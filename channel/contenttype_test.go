package channel_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
)

func TestParseContentType(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"text/plain": "text/plain", " Text/PLAIN ": "text/plain", "text/plain;charset=UTF-8": "text/plain; charset=utf-8",
		`text/plain; Charset="utf-8"`: "text/plain; charset=utf-8", "a/b; z=Z; y=1": "a/b; y=1; z=Z",
		"application/vnd.api+json": "application/vnd.api+json", "application/octet-stream;": "application/octet-stream",
		"application/json": "", "Application/JSON; charset=utf-8": "", `application/json; profile="x y"`: "",
		"multipart/form-data; boundary=x-1": "multipart/form-data; boundary=x-1",
		"a/" + strings.Repeat("b", 126):     "a/" + strings.Repeat("b", 126),
	} {
		got, err := channel.ParseContentType(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		again, err := channel.ParseContentType(got)
		require.True(t, got == "" || err == nil && again == got && channel.IsContentType(got), "%q is normal", got)
	}
	for _, text := range []string{
		"", " ", "text", "/plain", "text/", "text plain", "text/pl ain", "text/plain; charset", "a/b; x=1; x=2", "a/b, c/d",
		`a/b; x="y z"`, `a/b; x="\""`, "a/b\r\nX: y", "a/ü", "a/b; x=\xff", "text/plain/x", "\x00", `"a/b"`,
		"a/" + strings.Repeat("b", 127), "a/b; c=" + strings.Repeat("d", 5000),
	} {
		got, err := channel.ParseContentType(text)
		require.ErrorIs(t, err, &fault.Error{Slug: fault.SlugContentType}, "%q", text)
		require.ErrorContains(t, err, "the content type ")
		require.Empty(t, got)
	}
}
