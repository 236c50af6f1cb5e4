package matchmaking

// ParseDefinition reads a queue's definition from JSON, fills in what is left out, and checks all that can be checked
// without building the queue's parts. What it gives is written by json.Marshal in a form that it reads as the same
// again. Keys that a definition doesn't have, or that are there twice, are refused. Errors: fault.SlugInvalidQueue; the
// field, and the beginning of the detail, is the path of what is wrong, as in match.widen[0].after.
func ParseDefinition(name string, text []byte) (Definition, error) {
	tree, err := parseTree(text)
	if err != nil {
		return Definition{}, err
	}
	return parseDefinition(name, tree, false)
}

// ParseDefinitionText is ParseDefinition for a tree of map[string]any, []any and text, as it is read from a
// configuration file in which every value is text: numbers and truths are read from it where they are expected. nil,
// as the tree or in it, is what is left out.
func ParseDefinitionText(name string, tree any) (Definition, error) {
	return parseDefinition(name, tree, true)
}

func parseDefinition(name string, tree any, text bool) (Definition, error) {
	if err := CheckQueueName(name); err != nil {
		return Definition{}, err
	}
	d := DefaultDefinition(name)
	if err := (treeReader{text: text}).read(tree, &d); err != nil {
		return Definition{}, err
	}
	if err := d.Check(); err != nil {
		return Definition{}, err
	}
	return d, nil
}

// DefaultDefinition returns the definition of a queue for which no key is given.
func DefaultDefinition(name string) Definition {
	return Definition{
		Name: name,
		Match: Match{
			Function: MatchFirstCome, Teams: 2, TeamSize: 1, Acceptance: AcceptMutual,
			Timeout: Duration(DefaultCallTimeout), Debounce: Duration(DefaultDebounce),
		},
		Evaluator:      Caller{Kind: evaluatorDecollide, Timeout: Duration(DefaultCallTimeout)},
		Assigner:       AssignBy{Kind: AssignStatic, Timeout: Duration(DefaultCallTimeout)},
		TicketTTL:      Duration(DefaultTicketTTL),
		PendingTimeout: Duration(DefaultPendingTimeout),
		AssignmentTTL:  Duration(DefaultAssignmentTTL),
		MaxTicketBytes: DefaultMaxTicketBytes,
	}
}
