package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// parser is a koanf.Parser of YAML that keeps every value as it is written. The password 0123 stays as it is; by YAML's
// own rules it would be the number 83.
type parser struct{}

// Unmarshal reads the only document of a file.
func (parser) Unmarshal(data []byte) (map[string]any, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if line := tabLine(data); err != nil && line > 0 {
		return nil, fmt.Errorf("%w; line %d is indented with a tab: use spaces", err, line)
	} else if err != nil {
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file contains more than one document")
	}
	value, err := plainValue(doc.Content[0], 0)
	if err != nil {
		return nil, err
	}
	switch value := value.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return value, nil
	default:
		return nil, errors.New("the file isn't a mapping of keys to values")
	}
}

// tabLine returns the number of the first line that is indented with a tab, or 0. The errors of the YAML library don't
// name it.
func tabLine(data []byte) int {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("\t")) {
			return number
		}
	}
	return 0
}

// Marshal is never called; it makes parser a koanf.Parser.
func (parser) Marshal(map[string]any) ([]byte, error) {
	return nil, errors.New("writing YAML isn't supported")
}

// maxDepth is deeper than any option. It ends the expansion of an alias that contains itself.
const maxDepth = 12

// plainValue returns a node as text, []any, map[string]any, or nil.
func plainValue(n *yaml.Node, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("line %d: nested too deeply", n.Line)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return plainValue(n.Alias, depth+1)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			value, err := plainValue(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case yaml.MappingNode:
		return plainMapping(n, depth)
	default:
		if n.Tag == "!!null" {
			return nil, nil
		}
		return n.Value, nil
	}
}

func plainMapping(n *yaml.Node, depth int) (any, error) {
	mapping := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: the key isn't plain text", key.Line)
		}
		if _, twice := mapping[key.Value]; twice {
			return nil, fmt.Errorf("line %d: duplicate key %s", key.Line, key.Value)
		}
		value, err := plainValue(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		mapping[key.Value] = value
	}
	return mapping, nil
}
