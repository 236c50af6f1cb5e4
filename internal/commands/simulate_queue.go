package commands

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/builder"
)

// queue is a queue whose matches can be simulated.
type queue struct{ definition matchmaking.Definition }

// parseQueue reads a queue's definition from JSON: that of PUT /v1/queues/{queue}, or an object that has it as its
// definition, as in the answer. Errors: that it isn't one, and that other services decide about the queue's matches,
// which can't be simulated.
func parseQueue(text []byte) (queue, error) {
	var answer struct {
		Definition json.RawMessage `json:"definition"`
	}
	if json.Unmarshal(text, &answer) == nil && answer.Definition != nil {
		text = answer.Definition
	}
	const name = "simulated"
	d, err := matchmaking.ParseDefinition(name, text)
	if err != nil {
		return queue{}, err
	}
	usual := matchmaking.DefaultDefinition(name)
	switch {
	case d.Match.Function != matchmaking.MatchFirstCome && d.Match.Function != matchmaking.MatchCriteria:
		return queue{}, fmt.Errorf("the match function %s can't be simulated, only first-come and criteria can",
			d.Match.Function)
	case d.Evaluator.Kind != usual.Evaluator.Kind:
		return queue{}, fmt.Errorf("the evaluator %s can't be simulated, only %s can", d.Evaluator.Kind,
			usual.Evaluator.Kind)
	}
	d.Assigner = usual.Assigner // nothing is allocated
	return queue{definition: d}, nil
}

func (q queue) build() (matchmaking.Parts, error) {
	return builder.Builder(slog.New(slog.DiscardHandler), nil)(q.definition)
}
