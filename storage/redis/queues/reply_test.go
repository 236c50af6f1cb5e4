package queues

import (
	"errors"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// queueDecoders decode a reply to each operation on a queue, and return only the error.
var queueDecoders = map[string]func(r redis.Reply) error{
	"create": func(r redis.Reply) error {
		outcomes, _, err := createOutcomes(r, 1)
		if err != nil {
			return err
		}
		return storagetest.ErrorOf2(createOutcome(outcomes[0], &matchmaking.CreateRequest{}))
	},
	"ticket": func(r redis.Reply) error { return storagetest.ErrorOf(decodeTicket(r.Decoder(), "duel", "a")) },
	"claim": func(r redis.Reply) error {
		return addClaimed(r, &matchmaking.Claimed{Held: map[string]time.Time{}})
	},
	"assign": func(r redis.Reply) error {
		return assigned(make([]matchmaking.AssignMatch, 1), redis.Result{Reply: r})[0].Err
	},
	"snapshot": func(r redis.Reply) error { return storagetest.ErrorOf(decodePage(r)) },
	"outgoing": func(r redis.Reply) error { return storagetest.ErrorOf(decodeOutgoing(r)) },
	"states":   func(r redis.Reply) error { return storagetest.ErrorOf(decodeStates(r, 2)) },
	"queue":    func(r redis.Reply) error { return storagetest.ErrorOf(queueState(r)) },
	"backfill": func(r redis.Reply) error { return storagetest.ErrorOf(backfillOf(r, "duel", "a")) },
	"prolong": func(r redis.Reply) error {
		if r.Status != redis.OK {
			return refusals.Error(r)
		}
		outcomes, err := prolongedOf(r.Decoder(), "duel", []string{"a", "b"})
		for _, o := range outcomes {
			err = errors.Join(err, o.err)
		}
		return err
	},
	"handout": func(r redis.Reply) error {
		match := numbered{HandOutMatch: &matchmaking.HandOutMatch{Backfill: &matchmaking.MatchBackfill{}}}
		return storagetest.ErrorOf(handedOut("duel", []numbered{match}, redis.Result{Reply: r}))
	},
}

const someTicket = `'S1704067200000000 600000 60000 600000 01M7XSP26QJ3QEVHWDRP2PHXG6  '`

func TestReplies(t *testing.T) {
	t.Parallel()
	right := map[string][]string{
		"create": {
			`{'OK', 0, {{'CREATED', '1704067200000000', '1704067800000'}}}`, `{'OK', 5, {{'EXISTS', 'EXPIRED', '', ` +
				someTicket + `, ''}}}`,
		},
		"ticket": {
			`{'OK', 'SEARCHING', '1704067800000', ` + someTicket + `, ''}`, `{'EXISTS', 'EXPIRED', '', ` + someTicket +
				`, ''}`,
			`{'OK', 'MATCH_FOUND', '', ` + someTicket + `, '{"matchId":"m1"}'}`,
		},
		"claim": {`{'OK', '1704067200000000', '1704067800000', {}, {}, {}}`,
			`{'OK', '1', '2', {'a'}, {'b', '3'}, {'c', 'd'}}`},
		"assign": {`{'OK', {{'OK', {'1-1'}, {'5'}}}}`, `{'EXISTS', {{'EXISTS'}}}`,
			`{'CONFLICT', {{'CONFLICT', {'a', 'gone', '', 'b', 'claim', '1700000000000'}}}}`},
		"snapshot": {`{'OK', '1', '0-0', {}}`, `{'OK', '1', '1-1', {'a', '1704067200000000', '1704067800000', ''}}`},
		"outgoing": {`{'OK', '1', {}}`,
			`{'OK', '1', {{'1-1', {'ticket', 'a', 'match', 'b', 'epoch', '', 'content', '{}'}}}}`},
		"states": {`{'OK', {'1704067200000000', '5', '', '0', '0', ''}}`,
			`{'OK', {'1704067200000000', '0', '{}', '0', '0', ''}}`},
		"queue": {
			`{'OK', '1', 0, 0, 0, 0, '', {'0', '0', '0', '0'}, {}}`,
			`{'OK', '1', 1, 2, 9, 3, '4', {'5', '6', '7', '8'}, {{'1-1', {'waits', '1 2'}}}}`,
		},
	}
	const backfill = `{'1700000000000', '2', '1704067200000000', '', '', ' a b'}`
	right["backfill"] = []string{`{'OK', ` + backfill + `}`}
	right["handout"] = []string{`{'OK', '1', {{'OK', '1700000000000', ` + backfill + `}}}`,
		`{'CONFLICT', '1', {{'CHANGED'}}}`, `{'CONFLICT', '1', {{'FULL'}}}`,
		`{'CONFLICT', '1', {{'CONFLICT', {'a', 'gone', ''}}}}`}
	const prolonged = `'OK', '1700000000000', '2', '1704067200000000', '', '', '', 'm1'`
	right["prolong"] = []string{`{'OK', {` + prolonged + `}}`, `{'OK', {'TICKETS', ' a b', ` + prolonged + `}}`}
	wrong := map[string][]string{
		"prolong": {
			`{'OK'}`, `{'OK', {}}`, `{'OK', {'OK'}}`, `{'OK', {'OK', '1', '2', '3', '', '', ''}}`, `{'OK', {'TICKETS'}}`,
			`{'OK', {` + prolonged + `, 'a'}}`, `{'OK', {` + prolonged + `}, 1}`, `{'OK', {'CREATED'}}`, `{'CREATED'}`,
			`{'OK', {` + prolonged + `, ` + prolonged + `, ` + prolonged + `}}`,
			`{'OK', {'OK', '1', 'x', '3', '', '', '', ''}}`,
		},
		"backfill": {
			`{'OK'}`, `{'OK', {}}`, `{'OK', ` + backfill + `, 1}`, `{'OK', {'1', '2', '3', '', ''}}`, `{'CREATED'}`,
			`{'OK', {'1', '2', '3', '', '', '', ''}}`, `{'OK', {'1', 'x', '3', '', '', ''}}`,
			`{'OK', {'1', '2', '3', 'x', '', ''}}`,
		},
		"handout": {
			`{'OK'}`, `{'OK', '1', {}}`, `{'OK', 'x', {{'CHANGED'}}}`, `{'OK', {{'CHANGED'}}}`,
			`{'OK', '1', {{'OK'}}}`, `{'OK', '1', {{'OK', '1'}}}`,
			`{'OK', '1', {{'OK', '1', ` + backfill + `, 1}}}`, `{'OK', '1', {{'OK', 'x', ` + backfill + `}}}`,
			`{'OK', '1', {{'OK', '1', {}}}}`,
			`{'OK', '1', {{'CONFLICT', {'a'}}}}`, `{'OK', '1', {{'LEASE'}}}`, `{'CREATED'}`,
			`{'OK', '1', {{'CHANGED'}, {'CHANGED'}}}`,
		},
		"create": {
			`{'OK'}`, `{'OK', 0}`, `{'OK', 'x', {{'CREATED', '1', '2'}}}`, `{'OK', 0, {}}`, `{'OK', 0, {'CREATED'}}`,
			`{'OK', 0, {{'CREATED', '1', '2'}}, 1}`,
			`{'OK', 0, {{'CREATED'}}}`, `{'OK', 0, {{'CREATED', '1'}}}`, `{'OK', 0, {{'CREATED', '1', 'x'}}}`,
			`{'OK', 0, {{'CREATED', 'x', '1'}}}`,
			`{'OK', 0, {{'CREATED', '1', '2', '3'}}}`, `{'OK', 0, {{'EXISTS', 'EXPIRED'}}}`, `{'OK', 0, {{'OK'}}}`,
			`{'OK', 0, {{}}}`, `{'CREATED'}`,
		},
		"ticket": {
			`{'OK'}`, `{'OK', 'SEARCHING', '1', ` + someTicket + `}`, `{'OK', 'SEARCHING', 'x', ` + someTicket +
				`, ''}`,
			`{'OK', 'LOST', '1', ` + someTicket + `, ''}`, `{'OK', 'SEARCHING', '1', 'S1 2 3', ''}`,
			`{'OK', 'SEARCHING', '1', 'X1 2 3 4 a  ', ''}`,
			`{'OK', 'SEARCHING', '1', 'S1 x 3 4 a  ', ''}`, `{'OK', 'SEARCHING', '1', 'S1 2 3 4 a  {', ''}`,
			`{'OK', 'SEARCHING', '1', 'S1 2 3 4 a x ', ''}`, `{'OK', 'SEARCHING', '1', '', ''}`,
			`{'OK', 'MATCH_FOUND', '', ` + someTicket + `, ''}`, `{'OK', 'SEARCHING', '1', ` + someTicket + `, '', ''}`,
		},
		"claim": {
			`{'OK'}`, `{'OK', '1', '2', {}, {}}`, `{'OK', '1', '2', {}, {'a'}, {}}`,
			`{'OK', '1', '2', {}, {'a', 'x'}, {}}`,
			`{'OK', 'x', '2', {}, {}, {}}`, `{'OK', '1', '2', 'a', {}, {}}`, `{'OK', '1', '2', {}, {}, {}, {}}`,
			`{'OK', '1', '2', {{}}, {}, {}}`,
			`{'CONFLICT'}`,
		},
		"assign": {
			`{'OK'}`, `{'OK', {}}`, `{'OK', {{'OK', {}}}}`, `{'OK', {{'OK', {'1-1'}, {'x'}}}}`,
			`{'OK', {{'OK', {'1-1'}, {'1'}, {}}}}`,
			`{'OK', {{'EXISTS', 'a'}}}`, `{'OK', {{'CONFLICT'}}}`, `{'OK', {{'CONFLICT', {'a'}}}}`,
			`{'OK', {{'CONFLICT', {'a', 'late'}}}}`,
			`{'OK', {{'CONFLICT', {'a', 'gone'}, 1}}}`, `{'OK', {{'CREATED'}}}`, `{'OK', {{'EXISTS'}, {'EXISTS'}}}`,
			`{'CREATED', {{'EXISTS'}}}`,
		},
		"snapshot": {
			`{'OK'}`, `{'OK', '1', '0-0'}`, `{'OK', '1', '0-0', {'a'}}`, `{'OK', '1', '0-0', {'a', '1', '2'}}`,
			`{'OK', '1', '0-0', {'a', '1', 'x', ''}}`, `{'OK', '1', '0-0', {}, {}}`, `{'OK', 'x', '0-0', {}}`,
			`{'CREATED'}`,
		},
		"outgoing": {
			`{'OK'}`, `{'OK', '1'}`, `{'OK', '1', {'1-1'}}`, `{'OK', '1', {{'1-1'}}}`,
			`{'OK', '1', {{'1-1', {'ticket'}}}}`,
			`{'OK', '1', {{'x', {}}}}`, `{'OK', '1', {{'1-1', {'epoch', 'x'}}}}`, `{'OK', '1', {{'1-1', {}, {}}}}`,
			`{'OK', '1', {}, {}}`, `{'CREATED'}`,
		},
		"states": {
			`{'OK'}`, `{'OK', {}}`, `{'OK', {'1', '2', '', '3', '4'}}`, `{'OK', {'1', '2', '', 'x', '4', ''}}`,
			`{'OK', {'1', '2', '', '3', 'x', ''}}`,
			`{'OK', {'1', '2', '', '3', '4', '', '5', '6', ''}}`, `{'OK', {'1', '2', '', '3', '4', ''}, 1}`,
			`{'CREATED'}`,
		},
		"queue": {
			`{'OK'}`, `{'OK', '1', 0, 0, 0, 0, '', {'0', '0', '0'}, {}}`,
			`{'OK', '1', 0, 0, 0, 0, '', {'0', '0', '0', '0', '0'}, {}}`,
			`{'OK', '1', 0, 0, 0, 0, 'x', {'0', '0', '0', '0'}, {}}`, `{'OK', '1', 0, 0, 0, 0, '', {'0', '0', '0', 'x'}, {}}`,
			`{'OK', '1', 0, 0, 0, 0, '', {'0', '0', '0', '0'}, {{'1-1', {'waits', 'x'}}}}`,
			`{'OK', '1', 0, 0, 0, 0, '', {'0', '0', '0', '0'}, {}, 1}`,
			`{'CREATED'}`,
		},
	}
	storetest.RequireDecoded(t, queueDecoders, right, wrong)
}

func TestQueueRefusals(t *testing.T) {
	t.Parallel()
	storetest.RequireRefusals(t, refusals, map[string]error{
		"FULL": matchmaking.ErrQueueFull, "NO_TICKET": matchmaking.ErrNoTicket, "MATCHED": matchmaking.ErrTicketMatched,
		"LEASE": lease.ErrLost, "LOST": matchmaking.ErrChangesLost, "UNDONE": matchmaking.ErrUndone,
		"VACANT": matchmaking.ErrNoTicket, "NO_BACKFILL": matchmaking.ErrNoBackfill,
		"EXPIRED": matchmaking.ErrBackfillExpired,
	})
}
