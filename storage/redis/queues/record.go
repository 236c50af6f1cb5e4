package queues

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
	"github.com/tidemark-dev/tidemark/storage/redis/queues/internal/stored"
)

// errMalformed is the error of a value that isn't a ticket.
var errMalformed = errors.New("malformed ticket in the storage")

// isRecord reports whether a value is a ticket.
func isRecord(value []byte) bool { return len(value) > 0 && value[0] != 'U' }

// isRecordOf reports whether a value is the ticket with the given creation time, in microseconds, and not an earlier
// one with its ID.
func isRecordOf(value []byte, created string) bool {
	return isRecord(value) && bytes.HasPrefix(value[1:], []byte(created+" "))
}

// parseRecord parses the value of a ticket's key: "S<created, µs> <ttl, ms> <keep, ms> <life, ms> <attempts> <epoch>
// <spec>", with the spec of encodeTicket. The first byte is C if the ticket was cancelled, or D if it was
// deindexed; the returned status is Cancelled for both, or Searching. The attempts are those that created or found the
// ticket; the epoch is empty if its ID is never reused. Without a ticket the key may hold "U <attempt> …", the undone
// attempts and epochs.
//
// Expires is that of a ticket that was never renewed. Errors: errMalformed.
func parseRecord(queue, id string, value []byte) (matchmaking.Ticket, error) {
	t := matchmaking.Ticket{ID: id, Queue: queue}
	parts := bytes.SplitN(value, []byte(" "), 7)
	if len(parts) != 7 || len(parts[0]) == 0 {
		return matchmaking.Ticket{}, errMalformed
	}
	switch parts[0][0] {
	case 'S':
		t.Status = matchmaking.Searching
	case 'C', 'D':
		t.Status = matchmaking.Cancelled
	default:
		return matchmaking.Ticket{}, errMalformed
	}
	var numbers [4]int64
	for i, text := range [][]byte{parts[0][1:], parts[1], parts[2], parts[3]} {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return matchmaking.Ticket{}, fmt.Errorf("%w: %w", errMalformed, err)
		}
		numbers[i] = n
	}
	t.CreateTime = time.UnixMicro(numbers[0]).UTC()
	t.TTL, t.Life = time.Duration(numbers[1])*time.Millisecond, time.Duration(numbers[3])*time.Millisecond
	t.Expires = t.CreateTime.Truncate(time.Millisecond).Add(t.TTL)
	var err error
	if epoch := parts[5]; len(epoch) > 0 {
		if t.Epoch, err = ulid.ParseStrict(string(epoch)); err != nil {
			return matchmaking.Ticket{}, fmt.Errorf("%w: %w", errMalformed, err)
		}
	}
	if err = decodeSpec(parts[6], &t); err != nil {
		return matchmaking.Ticket{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return t, nil
}

// Size implements matchmaking.Creations.
func (s *Store) Size(spec *matchmaking.Spec) int { return proto.Size(storedTicket(spec, "")) }

// encodeTicket returns the stored form of a ticket's spec, its owner, and whether it has no channel. It fails for text
// that isn't UTF-8.
func encodeTicket(t *matchmaking.Ticket) ([]byte, error) {
	m := storedTicket(&t.Spec, t.Owner)
	m.Trace, m.NoChannel = t.Trace, t.NoChannel // which Size doesn't count
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// encodeSpec is encodeTicket for a spec alone.
func encodeSpec(s *matchmaking.Spec) ([]byte, error) {
	return encodeTicket(&matchmaking.Ticket{Spec: *s})
}

// storedTicket returns a message that shares the spec's referenced values. For a ticket sent as a message it contains
// only values that can't be derived from that message.
func storedTicket(s *matchmaking.Spec, owner string) *stored.Ticket {
	m := &stored.Ticket{Owner: owner, Sent: s.Sent}
	rated := len(s.Criteria) > 0 || s.NumTeams != 0 || s.TeamSize != 0 || s.Players != 0
	if s.Sent != nil {
		if rated || !slices.Equal(s.Statistics, s.SearchFields.Statistics()) {
			m.Matching = storedMatching(s)
		}
		return m
	}
	if rated || len(s.Statistics) > 0 {
		m.Matching = storedMatching(s)
	}
	if f := &s.SearchFields; len(f.Tags)+len(f.DoubleArgs)+len(f.StringArgs) > 0 {
		m.SearchFields = &stored.SearchFields{Tags: f.Tags, DoubleArgs: f.DoubleArgs, StringArgs: f.StringArgs}
	}
	m.Extensions, m.PersistentField = mapOf[[]byte](s.Extensions), mapOf[[]byte](s.PersistentField)
	return m
}

func storedMatching(s *matchmaking.Spec) *stored.Matching {
	m := &stored.Matching{NumTeams: int64(s.NumTeams), TeamSize: int64(s.TeamSize), Players: int64(s.Players)}
	for _, c := range s.Criteria {
		m.Criteria = append(m.Criteria, &stored.Criterion{Name: c.Name, MinValue: c.MinValue, MaxValue: c.MaxValue})
	}
	for _, v := range s.Statistics {
		m.Statistics = append(m.Statistics, &stored.Statistic{Name: v.Name, Value: v.Value})
	}
	return m
}

// decodeSpec decodes the result of encodeTicket into a ticket.
func decodeSpec(text []byte, t *matchmaking.Ticket) error {
	m, sent := new(stored.Ticket), new(stored.Sent)
	if err := proto.Unmarshal(text, m); err != nil {
		return err
	}
	search := m.GetSearchFields()
	if m.Sent != nil {
		if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(m.GetSent(), sent); err != nil {
			return fmt.Errorf("what the client sent: %w", err)
		}
		search = sent.GetSearchFields()
	}
	s := matchmaking.Spec{
		SearchFields: matchmaking.SearchFields{
			Tags: search.GetTags(), DoubleArgs: search.GetDoubleArgs(), StringArgs: search.GetStringArgs(),
		},
		NumTeams: int(m.GetMatching().GetNumTeams()), TeamSize: int(m.GetMatching().GetTeamSize()),
		Players:    int(m.GetMatching().GetPlayers()),
		Extensions: mapOf[json.RawMessage](m.GetExtensions()),
		Trace:      m.GetTrace(),
		Sent:       m.Sent, PersistentField: mapOf[json.RawMessage](m.GetPersistentField()),
	}
	if err := checkStored(m, &s); err != nil {
		return err
	}
	for _, c := range m.GetMatching().GetCriteria() {
		s.Criteria = append(s.Criteria, matchmaking.Criterion{
			Name: c.GetName(), MinValue: c.GetMinValue(), MaxValue: c.GetMaxValue(),
		})
	}
	for _, v := range m.GetMatching().GetStatistics() {
		s.Statistics = append(s.Statistics, matchmaking.Statistic{Name: v.GetName(), Value: v.GetValue()})
	}
	if m.Sent != nil && m.GetMatching() == nil {
		s.Statistics = s.SearchFields.Statistics()
	}
	t.Spec, t.Owner, t.NoChannel = s, m.GetOwner(), m.GetNoChannel()
	return nil
}

// checkStored refuses values that are damaged: a ticket that can't be written as JSON would fail each answer, and each
// call of a match function, that it is part of.
func checkStored(m *stored.Ticket, s *matchmaking.Spec) error {
	for _, values := range []map[string]json.RawMessage{s.Extensions, s.PersistentField} {
		for name, value := range values {
			if !strictjson.Valid(value) {
				return fmt.Errorf("the value of %q isn't JSON in UTF-8", name)
			}
		}
	}
	isFinite := func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
	for _, c := range m.GetMatching().GetCriteria() {
		if !isFinite(c.GetMinValue()) || !isFinite(c.GetMaxValue()) {
			return fmt.Errorf("the criterion %q isn't a range of numbers", c.GetName())
		}
	}
	for _, v := range m.GetMatching().GetStatistics() {
		if !isFinite(v.GetValue()) {
			return fmt.Errorf("the statistic %q isn't a number", v.GetName())
		}
	}
	return nil
}

// mapOf returns a map with the same bytes, or nil if empty.
func mapOf[To, From ~[]byte](from map[string]From) map[string]To {
	if len(from) == 0 {
		return nil
	}
	to := make(map[string]To, len(from))
	for name, value := range from {
		to[name] = To(value)
	}
	return to
}
