package redact_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redact"
)

func TestURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"":                             "",
		"http://a/b":                   "http://a/b",
		"127.0.0.1:50503":              "127.0.0.1:50503",
		"http://u:p@a/b":               "http://u:xxxxx@a/b",
		"http://token@a/b":             "http://xxxxx@a/b",
		"redis://u:p@a:1,b":            "redis://xxxxx@a:1,b",
		"redis://u:p/q@a:1":            "redis://xxxxx@a:1",
		"https://a/b?token=t&x=&plain": "https://a/b?token=xxxxx&x=xxxxx&xxxxx",
	} {
		require.Equal(t, want, redact.URL(address))
		require.Equal(t, want, redact.URL(want))
		require.Equal(t, want != address, redact.InURL(want))
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/v1/channels/lobby/messages": "/v1/channels/lobby/messages",
		"/v1/users/tms_0123456789abcdefghijABCDEFGHIJ-_0123456789abYW5u/sessions": "/v1/users/xxxxx/sessions",
		"/v1/keys/tmk_ABCDEFGH_0123456789abcdefghij":                              "/v1/keys/xxxxx",
		"/v1/channels/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl":       "/v1/channels/xxxxx",
		"/v1/channels/tm_short/eyJ":                                               "/v1/channels/tm_short/eyJ",
	} {
		require.Equal(t, want, redact.Credentials(text))
	}
}
