package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseBytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"1": 1, "65536": 65536, "7B": 7, "256KiB": 256 << 10, "3 MiB": 3 << 20, "2GiB": 2 << 30,
	} {
		n, err := ParseBytes(text)
		require.NoError(t, err)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"", "KiB", "1KB", "1k", "1.5MiB", "-1", "0", "0x10", "9223372036854775807KiB"} {
		_, err := ParseBytes(text)
		require.Error(t, err, "%q", text)
	}
}

func TestParseListen(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"127.0.0.1:8080", ":80", "[::1]:0", "localhost:9"} {
		listen, err := listen(text)
		require.NoError(t, err)
		require.Equal(t, text, listen)
	}
}

func TestParseOrigin(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"*", "https://a.example", "http://localhost:3000", "https://*.a.example"} {
		_, err := origin(text)
		require.NoError(t, err, text)
	}
	for _, text := range []string{"a.example", "https://", "https://a/", "https://a?b", "https://u@a", "//a",
		"https://a b"} {
		_, err := origin(text)
		require.Error(t, err, text)
	}
}

func TestParsePathPrefix(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"/old", "/old/api.v2", "/v1x", "/old/v1", "/" + strings.Repeat("a", 127)} {
		prefix, err := pathPrefix(text)
		require.NoError(t, err, text)
		require.Equal(t, text, prefix)
	}
	for _, text := range []string{"/", "old", "/old/", "//old", "/old//api", "/..", "/a/../b", "/.a", "/:a", "/a*", "/a b",
		"/a%20", "/a?b", "/é", "/v1", "/v1/old", "/" + strings.Repeat("a", 128)} {
		_, err := pathPrefix(text)
		require.Error(t, err, text)
	}
}

func TestParseHost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"a.example": "a.example", "*.A.Example": "*.a.example",
		"tidemark": "tidemark"} {
		host, err := host(text)
		require.NoError(t, err, text)
		require.Equal(t, want, host)
	}
	for _, text := range []string{"", "*", "*.", "a.example:80", "https://a.example", "a.*.example", "[::1]", "a b"} {
		_, err := host(text)
		require.Error(t, err, text)
	}
}
