package simulate

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/tidemark-dev/tidemark/internal/parts"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Queue is a queue whose matches can be simulated.
type Queue struct{ definition matchmaking.Definition }

// ParseQueue reads a queue's definition from JSON: that of PUT /v1/queues/{queue}, or an object that has it as its definition, as in
// the answer. Errors: that it isn't one, and that other services decide about the queue's matches, which can't be simulated.
func ParseQueue(text []byte) (Queue, error) {
	var answer struct {
		Definition json.RawMessage `json:"definition"`
	}
	if json.Unmarshal(text, &answer) == nil && answer.Definition != nil {
		text = answer.Definition
	}
	const name = "simulated"
	d, err := matchmaking.ParseDefinition(name, text)
	if err != nil {
		return Queue{}, err
	}
	usual := matchmaking.DefaultDefinition(name)
	switch {
	case d.Match.Function != matchmaking.MatchFirstCome && d.Match.Function != matchmaking.MatchCriteria:
		return Queue{}, fmt.Errorf("the match function %s can't be simulated, only first-come and criteria can", d.Match.Function)
	case d.Evaluator.Kind != usual.Evaluator.Kind:
		return Queue{}, fmt.Errorf("the evaluator %s can't be simulated, only %s can", d.Evaluator.Kind, usual.Evaluator.Kind)
	}
	d.Assigner = usual.Assigner // nothing is allocated
	return Queue{definition: d}, nil
}

func (q Queue) build() (matchmaking.Parts, error) {
	return parts.Builder(slog.New(slog.DiscardHandler), nil)(q.definition)
}
