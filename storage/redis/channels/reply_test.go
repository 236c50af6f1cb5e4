package channels

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	epoch := "'" + "01ARZ3NDEKTSV4RRFFQ69G5FAV" + "'"
	right := map[string][]string{
		"publish": {`{'OK', ` + epoch + `, '1', '0', '-9007199254740991', '1'}`,
			`{'OK', '01ARZ3NDEKTSV4RRFFQ69G5FAV {"closed":true,"ttl":1000}', '1', '2', '5 7', '1'}`},
		"subscribe":   {`{'CREATED', ` + epoch + `, '0'}`, `{'EXISTS', ` + epoch + `, '-5'}`},
		"unsubscribe": {`{'OK'}`, `{'NO_SUBSCRIBER'}`},
		"ack":         {`{'OK'}`, `{'STALE'}`},
		"describe": {`{'OK', ` + epoch + `, '5', 1, -1, 0, '0', {}}`,
			`{'OK', ` + epoch + `, '5', 1, 4, 2, '18446744073709551615', {'a', '1', 'b', '2'}}`},
		"fetch": {
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 0, {}, {}}`,
			`{'OK', ` + epoch + `, '0', '0', '1', '1', '0', '0', 0, {}, {'1', {'{"id":"a","content":1,"at":5}'}}}`,
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 1, {'a', 'AQIDBAUGBwg', '5'}, {}}`,
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 1, {'', '', ''}, {}}`,
			`{'OK', ` + epoch +
				`, '0', '0', '9', '9', '6', '0', 0, {}, {'1', {'{"id":"a","content":1,"at":5}', false}, '8', {false, '{"id":"b","content":1,"at":5}'}}}`,
		},
	}
	wrong := map[string][]string{
		"publish": {
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', 'x', {}}`,
			`{'OK'}`, `{'OK', ` + epoch + `, '1', '0'}`, `{'OK', ` + epoch + `, '1', '0', '2'}`,
			`{'OK', ` + epoch + `, '1', '0', '2', '0', '0'}`, `{'OK', ` + epoch + `, '1', '0', '2', 'x'}`,
			`{'OK', ` + epoch + `, 'x', '0', '2', '0'}`, `{'OK', ` + epoch + `, '1', {}, '2', '0'}`,
			`{'OK', ` + epoch + `, 1, '0', '2', '0'}`, `{'OK', ` + epoch + `, '9007199254740992', '0', '2', '0'}`,
			`{'OK', ` + epoch + `, false, '0', '2', '0'}`, `{'STALE', ` + epoch + `, '1', '0', '2', '0'}`, `{'CREATED'}`,
			`{'OK', 'x', '1', '0', '2', '0'}`, `{'OK', '01ARZ3NDEKTSV4RRFFQ69G5FAV x', '1', '0', '2', '0'}`,
		},
		"subscribe": {
			`{'CREATED'}`, `{'CREATED', ` + epoch + `}`, `{'CREATED', ` + epoch + `, '0', ''}`,
			`{'EXISTS', ` + epoch + `, 'x'}`, `{'EXISTS', 'x', '0'}`, `{'EXISTS', '', '0'}`, `{'EXISTS', {}, '0'}`,
			`{'EXISTS', ` + epoch + `, {}}`, `{'OK', ` + epoch + `, '0'}`,
		},
		"unsubscribe": {`{'OK', 'x'}`, `{'STALE'}`, `{'CREATED'}`},
		"ack":         {`{'OK', 'x'}`, `{'STALE', '1'}`, `{'EXISTS'}`},
		"describe": {
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', 'x', {}}`,
			`{'OK'}`, `{'OK', ` + epoch + `, '5', 1, -1, 0, '0'}`, `{'OK', ` + epoch + `, '5', 1, -1, 0, '0', 'x'}`,
			`{'OK', ` + epoch + `, '5', 'x', -1, 0, '0', {}}`, `{'OK', ` + epoch + `, '5', 1, -1, 'x', '0', {}}`,
			`{'OK', ` + epoch + `, '5', 1, -1, 0, '-1', {}}`, `{'OK', ` + epoch + `, '5', 1, -1, 0, {}, {}}`,
			`{'OK', ` + epoch + `, '5', 1, -1, 0, '0', {'a'}}`, `{'OK', ` + epoch + `, '5', 1, -1, 0, '0', {'a', 'b'}}`,
			`{'OK', ` + epoch + `, '5', 1, -1, 0, '0', {}, 1}`, `{'OK', 'x', '5', 1, -1, 0, '0', {}}`, `{'EXISTS'}`,
		},
		"fetch": {
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', 'x', 0, {}, {}}`,
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 'x', {}, {}}`,
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 0, {'a', 'AQIDBAUGBwg'}, {}}`,
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 0, {'a', 'AQIDBAUGBwg', 'x'}, {}}`,
			`{'OK'}`, `{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 0, {}}`,
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 0, {}, 'x'}`,
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 0, {}, {'1'}}`,
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 0, {}, {'x', {'{}'}}}`,
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 0, {}, {'1', '{}'}}`,
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 0, {}, {'1', {{}}}}`, `{'OK', ` + epoch + `, '0', '0', '5', '5', 'x', '0', 0, {}, {}}`,
			`{'OK', ` + epoch + `, '0', '0', '5', '5', '5', '0', 0, {}, {}, {}}`, `{'OK', 'x', '0', '0', '5', '5', '5', '0', 0, {}, {}}`, `{'STALE'}`,
		},
	}
	s, _ := openStandalone(t)
	storetest.RequireDecoded(t, map[string]func(redis.Reply) error{
		"publish": func(r redis.Reply) error {
			return storagetest.ErrorOf(
				decodePublished(reply{Reply: r, of: 2}, make([]channel.Draft, 2), nil))
		},
		"subscribe":   func(r redis.Reply) error { return storagetest.ErrorOf(subscription(r)) },
		"unsubscribe": func(r redis.Reply) error { return refusals.Check(r, redis.OK, statusNoSubscriber) },
		"ack":         func(r redis.Reply) error { return refusals.Check(r, redis.OK, statusStale) },
		"describe":    func(r redis.Reply) error { return storagetest.ErrorOf(description(r)) },
		"fetch":       func(r redis.Reply) error { return storagetest.ErrorOf(s.batch(t.Context(), r, s.keys("x"))) },
	}, right, wrong)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	storetest.RequireRefusals(t, refusals, map[string]error{
		"NO_CHANNEL": channel.ErrNoChannel, "NO_SUBSCRIBER": channel.ErrNoSubscriber, "EPOCH": channel.ErrReceiptEpoch,
		"AHEAD": channel.ErrReceiptAhead, "SUPERSEDED": channel.ErrReceiptSuperseded, "LIFE": channel.ErrLaterLife,
	})
	r, err := storetest.Reply(t, "{'AHEAD'}")
	require.NoError(t, err)
	_, err = subscription(r)
	require.ErrorIs(t, err, channel.ErrClockAhead, "what AHEAD means depends on who asked")
}
