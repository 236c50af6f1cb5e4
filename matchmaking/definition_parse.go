package matchmaking

import (
	"cmp"
	"encoding/json"
	"errors"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// ParseDefinition parses a queue's definition from JSON, sets the defaults of keys that are missing or null, and makes
// all checks that don't require building the queue's parts. Parsing the output of json.Marshal returns an equal
// definition. Unknown and duplicate keys are errors. Errors: fault.SlugInvalidQueue; the field, and the beginning of
// the detail, is the path of the invalid value, such as match.widen[0].after. An error about the text itself also wraps
// a *strictjson.Error.
func ParseDefinition(name string, text []byte) (Definition, error) {
	return parseDefinition(name, text, strictjson.NullIsUnset)
}

// ParseDefinitionText is ParseDefinition for a tree of map[string]any, []any and strings, as read from a configuration
// file whose values are all text: numbers and booleans are parsed from strings. nil, as the tree or in it, is a missing
// value.
func ParseDefinitionText(name string, tree any) (Definition, error) {
	if tree == nil {
		tree = map[string]any{}
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return Definition{}, InvalidQueue("", "the definition can't be written as JSON: %v", err)
	}
	return parseDefinition(name, text, strictjson.NullIsUnset, strictjson.TextIsPlain)
}

func parseDefinition(name string, text []byte, options ...strictjson.Option) (Definition, error) {
	if err := CheckQueueName(name); err != nil {
		return Definition{}, err
	}
	d := written{Definition: DefaultDefinition(name)}
	d.Reveal = "" // whether it is set
	var wrong *strictjson.Error
	if err := strictjson.Unmarshal(text, &d, options...); errors.As(err, &wrong) {
		return Definition{}, malformed(wrong)
	}
	if err := d.reveal(); err != nil {
		return Definition{}, err
	}
	if err := d.Check(); err != nil {
		return Definition{}, err
	}
	return d.Definition, nil
}

// written is the input form of a definition.
type written struct {
	Definition
	Teammates *bool `json:"teammates"` // the former name of reveal: true means teammates, false means none
}

// reveal sets Reveal from its former name, or to the default.
func (d *written) reveal() error {
	old := RevealNone
	if d.Teammates != nil && *d.Teammates {
		old = RevealTeammates
	}
	if d.Teammates != nil && d.Reveal != "" && d.Reveal != old {
		return InvalidQueue("teammates", "teammates: means reveal %q, but reveal is %q: leave teammates out", old,
			d.Reveal)
	}
	d.Reveal = cmp.Or(d.Reveal, old)
	return nil
}

// malformed returns an error with fault.SlugInvalidQueue that wraps wrong, which has the position in the text.
func malformed(wrong *strictjson.Error) error {
	told := &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidQueue, Field: wrong.Path, Detail: wrong.Error()}
	if wrong.Path == "" {
		told.Detail = "the definition is malformed: " + wrong.Reason
	}
	return invalidKey{told: told, err: wrong}
}

// DefaultDefinition returns the definition of a queue without any configured key.
func DefaultDefinition(name string) Definition {
	return Definition{
		Name: name,
		Match: Match{
			Function: MatchFirstCome, Teams: 2, TeamSize: 1, Acceptance: AcceptMutual,
			Timeout: Duration(DefaultCallTimeout), Debounce: Duration(DefaultDebounce), FetchLimit: DefaultFetchLimit,
		},
		Evaluator:      Caller{Kind: evaluatorDecollide, Timeout: Duration(DefaultCallTimeout)},
		Assigner:       AssignBy{Kind: AssignStatic, Timeout: Duration(DefaultCallTimeout)},
		TicketTTL:      Duration(DefaultTicketTTL),
		PendingTimeout: Duration(DefaultPendingTimeout),
		AssignmentTTL:  Duration(DefaultAssignmentTTL),
		Reveal:         RevealNone,
		Limits:         Limits{MaxTickets: DefaultMaxTickets, MaxTicketBytes: DefaultMaxTicketBytes},
	}
}
