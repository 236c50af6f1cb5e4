package director

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// messages writes the assignments of a match. What its tickets share is written once; IDs and names need no escapes.
func (t *term) messages(m *made) (matchmaking.AssignMatch, error) {
	connection, err := json.Marshal(m.place.Connection)
	if err != nil {
		return matchmaking.AssignMatch{}, fmt.Errorf("write the assignments of match %s: %w", m.ID, err)
	}
	tail, err := extensionsTail(m.Extensions, m.place.Extensions)
	if err != nil {
		return matchmaking.AssignMatch{}, fmt.Errorf("write the assignments of match %s: %w", m.ID, err)
	}
	shared := `","matchId":"` + m.ID + `","queue":"` + t.Definition.Name + `","connection":` + string(connection) + `,"team":`
	written := matchmaking.AssignMatch{ID: m.ID, Assignments: make([]matchmaking.AssignTicket, 0, len(m.ids))}
	for number, team := range m.Teams {
		for _, ticket := range team {
			content := make([]byte, 0, len(`{"ticketId":"`)+len(ticket.ID)+len(shared)+4+len(tail))
			content = append(content, `{"ticketId":"`...)
			content = append(content, ticket.ID...)
			content = append(content, shared...)
			content = strconv.AppendInt(content, int64(number), 10)
			if t.Definition.Teammates {
				content = appendTeammates(content, team, ticket.ID)
			}
			content = append(content, tail...)
			written.Assignments = append(written.Assignments, matchmaking.AssignTicket{
				ID: ticket.ID, Created: ticket.CreateTime, Epoch: ticket.Epoch, Content: content,
			})
		}
	}
	return written, nil
}

// extensionsTail writes what ends an assignment: the match function's extensions and the assigner's, whose value holds
// where both have one of the same name.
func extensionsTail(match, place map[string]json.RawMessage) ([]byte, error) {
	if len(match)+len(place) == 0 {
		return []byte("}"), nil
	}
	all := maps.Clone(match)
	if all == nil {
		all = place
	} else {
		maps.Copy(all, place)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return append(append([]byte(`,"extensions":`), text...), '}'), nil
}

func appendTeammates(content []byte, team []*matchmaking.Ticket, but string) []byte {
	if len(team) < 2 {
		return content
	}
	content = append(content, `,"teammates":[`...)
	separator := ""
	for _, other := range team {
		if other.ID != but {
			content = append(content, separator+`"`+other.ID+`"`...)
			separator = ","
		}
	}
	return append(content, ']')
}
