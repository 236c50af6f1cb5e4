package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

func TestFramesWithAProducer(t *testing.T) {
	t.Parallel()
	frame := func(members string) []byte {
		return []byte(`{"type":"publish","ref":1,"channel":"c",` + members + `"content":1}`)
	}
	f, err := wire.DecodeFrame(frame(`"producer":{"id":"p","epoch":0,"sequence":9007199254740991},"order":"a","close":true,`))
	require.NoError(t, err)
	require.Equal(t, &channel.Producer{ID: "p", Sequence: 1<<53 - 1}, f.Producer)
	require.Equal(t, []any{"a", true}, []any{f.Order, f.Close})
	f, err = wire.DecodeFrame(frame(`"close":false,`))
	require.NoError(t, err)
	require.Equal(t, []any{(*channel.Producer)(nil), "", false}, []any{f.Producer, f.Order, f.Close})
	for members, field := range map[string]string{
		`"producer":{"id":"p","epoch":0},`:                            "/producer/sequence",
		`"producer":{"id":"p","sequence":0},`:                         "/producer/epoch",
		`"producer":{"epoch":0,"sequence":0},`:                        "/producer/id",
		`"producer":{},`:                                              "/producer/id",
		`"producer":null,`:                                            "/producer",
		`"producer":"p",`:                                             "/producer",
		`"producer":{"id":1,"epoch":0,"sequence":0},`:                 "/producer/id",
		`"producer":{"id":"p","epoch":1.5,"sequence":0},`:             "/producer/epoch",
		`"producer":{"id":"p","epoch":"1","sequence":0},`:             "/producer/epoch",
		`"producer":{"id":"p","epoch":1e99,"sequence":0},`:            "/producer/epoch",
		`"producer":{"id":"p","epoch":null,"sequence":0},`:            "/producer/epoch",
		`"producer":{"id":"p","epoch":0,"sequence":0,"x":1},`:         "/producer/x",
		`"producer":{"id":"p","epoch":0,"epoch":1,"sequence":0},`:     "/producer/epoch",
		`"producer":{"id":"p","epoch":0,"sequence":0},"producer":{},`: "/producer",
		`"order":"",`:      "/order",
		`"order":1,`:       "/order",
		`"close":null,`:    "/close",
		`"close":"true",`:  "/close",
		`"close":1,`:       "/close",
		`"window":1,`:      "/window",
		`"subscriber":"",`: "/subscriber",
	} {
		_, err := wire.DecodeFrame(frame(members))
		var refused *wire.InputError
		require.ErrorAs(t, err, &refused, members)
		require.Equal(t, field, refused.Field, members)
	}
	_, err = wire.DecodeFrame([]byte(`{"type":"ping","ref":1,"close":true}`))
	var refused *wire.InputError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, fault.SlugInvalidBody, refused.Slug)
}
