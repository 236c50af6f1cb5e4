package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

func (c *Config) setQueues(tree map[string]any) (err error) {
	c.Matchmaking.Queues, err = queuesOf(tree)
	return err
}

// parseQueues parses a JSON object of queue definitions by name, and checks them. Its errors name the queue and the
// key, as in `queues.ranked.match.teams: …`.
func parseQueues(text string) ([]matchmaking.Definition, error) {
	var byName map[string]json.RawMessage
	var wrong *strictjson.Error
	switch err := strictjson.Unmarshal([]byte(text), &byName); {
	case errors.As(err, &wrong) && wrong.Path != "":
		return nil, fmt.Errorf("queues.%w", err)
	case err != nil && !strings.HasPrefix(strings.TrimSpace(text), "{"):
		return nil, fmt.Errorf("queues: must be a mapping of queues by name, such as {\"duel\": {}}, not %.32q", text)
	case err != nil:
		return nil, fmt.Errorf("queues: %w", err)
	}
	return each(byName, func(name string, definition json.RawMessage) (matchmaking.Definition, error) {
		if string(definition) == "null" { // the queue has only defaults, as in a file
			definition = json.RawMessage("{}")
		}
		return matchmaking.ParseDefinition(name, definition)
	})
}

// queuesOf is parseQueues for a mapping of a YAML file.
func queuesOf(tree map[string]any) ([]matchmaking.Definition, error) {
	return each(tree, matchmaking.ParseDefinitionText)
}

func each[T any](byName map[string]T, parse func(name string, from T) (matchmaking.Definition, error)) (
	[]matchmaking.Definition, error) {
	definitions := make([]matchmaking.Definition, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		d, err := parse(name, byName[name])
		if err != nil {
			return nil, inQueue(name, err)
		}
		definitions = append(definitions, d)
	}
	return definitions, nil
}

// inQueue adds the queue to an error, and makes one path of the queue and the key that the error names.
func inQueue(name string, err error) error {
	var clientErr *fault.Error
	if errors.As(err, &clientErr) && clientErr.Field != "" && strings.HasPrefix(clientErr.Detail, clientErr.Field+":") {
		return fmt.Errorf("queues.%s.%w", name, err)
	}
	return fmt.Errorf("queues.%s: %w", name, err)
}
