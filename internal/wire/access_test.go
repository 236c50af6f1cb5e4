package wire_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

var end = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

func TestDecodeNewKey(t *testing.T) {
	t.Parallel()
	k, err := wire.DecodeNewKey(
		[]byte(
			`{"description":"shop","grants":[{"actions":["publish"]}],"limits":"waits=1","expires":"2030-01-31T13:00:00+01:00"}`))
	require.NoError(t, err)
	require.Equal(t, client.NewKey{
		Description: "shop", Grants: json.RawMessage(`[{"actions":["publish"]}]`), Limits: "waits=1", Expires: end,
	}, k)
	for body, want := range map[string]wire.InputError{
		``:   {Detail: "the body is empty, it must be JSON"},
		`[]`: {Detail: "the body must be an object, not an array"},
		`{}`: {Detail: "grants: is missing", Field: "/grants", Offset: -1},
		`{"grants":[],"hash":"a"}`: {Detail: "hash: unknown member (known: description, grants, limits, expires)",
			Field: "/hash", Offset: 13},
		`{"grants":[],"expires":"90d"}`: {Detail: "must be a time such as 2030-01-31T12:00:00Z", Field: "/expires",
			Offset: 23},
		`{"grants":[],"grants":[]}`: {Detail: "grants: duplicate member", Field: "/grants", Offset: 13},
	} {
		_, err := wire.DecodeNewKey([]byte(body))
		refused(t, err, want)
	}
}

func TestDecodeNewRevocation(t *testing.T) {
	t.Parallel()
	r, err := wire.DecodeNewRevocation([]byte(`{"jti":"a","subject":"b","until":"2030-01-31T12:00:00Z"}`))
	require.NoError(t, err)
	require.Equal(t, client.NewRevocation{JTI: "a", Subject: "b", Until: end}, r)
	_, err = wire.DecodeNewRevocation([]byte(`{"jti":null}`))
	refused(t, err, wire.InputError{Detail: "jti: must be a string, not null", Field: "/jti", Offset: 7})
}
