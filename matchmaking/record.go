package matchmaking

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// AssignedMatch is the record of an assigned match.
type AssignedMatch struct {
	ID         string                     `json:"matchId"`
	Queue      string                     `json:"queue"`
	Connection string                     `json:"connection"`
	Teams      [][]MatchedTicket          `json:"teams"`
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"` // as in its assignments
	AssignTime time.Time                  `json:"-"`                    // of the storage's clock, in microseconds
}

// MatchedTicket is a ticket of a match.
type MatchedTicket struct {
	ID      string `json:"id"`
	Players int    `json:"players,omitempty"` // number of players, if more than one
}

// maxRecordBytes is the largest record of a match that includes the match's extensions.
const maxRecordBytes = 64 << 10

// ParseMatch parses the record of a match from a store.
func ParseMatch(record []byte, at time.Time) (AssignedMatch, error) {
	m := AssignedMatch{AssignTime: at}
	if err := json.Unmarshal(record, &m); err != nil {
		return AssignedMatch{}, fmt.Errorf("malformed record of a match: %w", err)
	}
	return m, nil
}

// record returns an AssignedMatch as JSON. IDs need no escapes. Extensions are omitted if it would be too large.
func (s *sharedJSON) record(teams [][]*Ticket, tickets int) []byte {
	const frame, perTicket = 32, 48
	record := make([]byte, 0, frame+len(s.before)+len(s.after)+perTicket*tickets)
	record = append(append(append(record, '{'), s.before...), `,"teams":[`...)
	for i, team := range teams {
		if i > 0 {
			record = append(record, ',')
		}
		record = append(record, '[')
		for j, ticket := range team {
			if j > 0 {
				record = append(record, ',')
			}
			record = append(append(append(record, `{"id":"`...), ticket.ID...), '"')
			if ticket.Party() > 1 {
				record = strconv.AppendInt(append(record, `,"players":`...), int64(ticket.Party()), 10)
			}
			record = append(record, '}')
		}
		record = append(record, ']')
	}
	record = append(record, ']')
	if len(record)+len(s.after) > maxRecordBytes {
		return append(record, '}')
	}
	return append(record, s.after...)
}
