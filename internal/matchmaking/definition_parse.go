package matchmaking

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"

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
	d := DefaultDefinition(name)
	if directorIn(text) == DirectorUser {
		d = UserDefinition(name)
		d.BackfillTTL, d.AssignmentTTL = 0, 0 // whether they are set
	}
	var wrong *strictjson.Error
	if err := strictjson.Unmarshal(text, &d, options...); errors.As(err, &wrong) {
		return Definition{}, malformed(wrong)
	}
	if d.Director == DirectorService {
		d.Director = ""
	}
	if d.ByUser() {
		d.BackfillTTL = cmp.Or(d.BackfillTTL, d.PendingTimeout/backfillShare*(backfillShare-1))
		d.AssignmentTTL = cmp.Or(d.AssignmentTTL, d.TicketTTL)
	}
	if err := d.Check(); err != nil {
		return Definition{}, err
	}
	return d, nil
}

// CheckDefinition is ParseDefinition, but returns all errors: at most one of each member of the text, or if there is
// none all those of the values.
func CheckDefinition(name string, text []byte) (Definition, []error) {
	d, err := ParseDefinition(name, text)
	var members map[string]json.RawMessage
	switch {
	case err == nil:
		return d, nil
	case CheckQueueName(name) != nil || json.Unmarshal(text, &members) != nil:
		return d, []error{err}
	}
	var faults []error
	director := directorIn(text)
	for _, member := range slices.Sorted(maps.Keys(members)) {
		single := map[string]any{member: members[member]}
		var of Definition
		if director == DirectorUser {
			of = UserDefinition(name)
		}
		var wrong *strictjson.Error
		alone, failed := json.Marshal(single)
		if failed == nil && errors.As(strictjson.Unmarshal(alone, &of, strictjson.NullIsUnset), &wrong) {
			faults = append(faults, malformed(wrong))
		}
	}
	if len(faults) > 0 {
		return d, faults
	}
	read := DefaultDefinition(name)
	if director == DirectorUser {
		read = UserDefinition(name)
	}
	if failed := strictjson.Unmarshal(text, &read, strictjson.NullIsUnset); failed != nil { // a duplicate member
		return d, []error{err}
	}
	if read.Director == DirectorService {
		read.Director = ""
	}
	return d, append(faults, read.faults()...)
}

// directorIn returns the director in the text of a definition, "" if it can't be read.
func directorIn(text []byte) Director {
	var d struct {
		Director Director `json:"director"`
	}
	if json.Unmarshal(text, &d) != nil {
		return ""
	}
	return d.Director
}

// malformed returns an error with fault.SlugInvalidQueue that wraps wrong, which has the position in the text.
func malformed(wrong *strictjson.Error) error {
	clientErr := &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidQueue, Field: wrong.Path, Detail: wrong.Error()}
	if wrong.Path == "" {
		clientErr.Detail = "the definition is malformed: " + wrong.Reason
	}
	return invalidKey{clientErr: clientErr, err: wrong}
}

// A backfill lives for four fifths of the pending timeout, unless its queue says otherwise: as in Open Match it ends
// before the claims on the tickets that were associated with it at its last acknowledgement.
const backfillShare = 5

// UserDefinition returns the definition of a queue that is directed by its user, without any other configured key.
func UserDefinition(name string) Definition {
	d := DefaultDefinition(name)
	d.Director, d.Match, d.Assigner = DirectorUser, Match{}, AssignBy{}
	d.AssignmentTTL, d.BackfillTTL = d.TicketTTL, d.PendingTimeout/backfillShare*(backfillShare-1)
	d.MaxBackfills = DefaultMaxBackfills
	return d
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
