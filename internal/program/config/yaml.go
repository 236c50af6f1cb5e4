package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of a file, so that aliases of aliases can't take all memory.
const (
	maxFile   = 1 << 20 // bytes
	maxDepth  = 12      // more than any option has; it ends the expansion of an alias that contains itself
	maxValues = 100_000 // after the expansion of aliases
)

// tree is a value of a YAML file, with its place. Every value is kept as it is written: the password 0123 stays as it
// is; by YAML's own rules it would be the number 83.
type tree struct {
	line int
	path string // as errors name it, such as channels[1].ttl; "" for the whole file
	text any    // string, or nil for a null, if the value is neither a list nor a mapping
	list []*tree
	keys []string // of a mapping, in order
	of   map[string]*tree
	up   *tree
}

// parseFile returns the mapping that is the only document of a file, and the faults of its syntax. It is nil if the
// file has no values.
func parseFile(data []byte) (*tree, []finding) {
	if bad := badCharacters(data); len(bad) > 0 {
		return nil, bad
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, []finding{syntaxFault(data, err)}
	}
	p := parser{}
	root := p.tree(doc.Content[0], nil, "", 0)
	var second yaml.Node
	switch err := d.Decode(&second); {
	case err == nil:
		p.fault(second.Line, "the file contains more than one document")
	case !errors.Is(err, io.EOF):
		p.faults = append(p.faults, syntaxFault(data, err))
	}
	switch {
	case p.broken, root.of == nil && root.list == nil && root.text == nil:
		return nil, p.faults
	case root.of == nil:
		p.fault(root.line, "the file isn't a mapping of keys to values")
		return nil, p.faults
	}
	return root, p.faults
}

// badCharacters returns a fault for each line that has a character that YAML doesn't allow. The errors of the YAML
// library don't name the line.
func badCharacters(data []byte) (faults []finding) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return []finding{{line: 1, text: "the file is UTF-16: save it as UTF-8"}}
	}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		for rest := line; len(rest) > 0; {
			r, size := utf8.DecodeRune(rest)
			if r == utf8.RuneError && size == 1 {
				faults = append(faults, finding{line: number, text: fmt.Sprintf("the byte 0x%02x isn't UTF-8", rest[0])})
				break
			}
			if unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) || r == 0xfffe || r == 0xffff {
				faults = append(faults, finding{line: number, text: fmt.Sprintf("the control character %U isn't allowed", r)})
				break
			}
			rest = rest[size:]
		}
	}
	return faults
}

// lineOfError matches the place in an error of the YAML library.
var lineOfError = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?`)

// syntaxFault returns the fault for an error of the YAML library.
func syntaxFault(data []byte, err error) finding {
	f := finding{text: err.Error()}
	if found := lineOfError.FindStringSubmatch(f.text); found != nil {
		f.line, _ = strconv.Atoi(found[1]) // 0 without a place
		f.text = "invalid YAML: " + f.text[len(found[0]):]
	}
	if tab := tabLine(data); tab > 0 {
		f.line = tab
		f.text += fmt.Sprintf("; line %d is indented with a tab: use spaces", tab)
	}
	f.line = max(f.line, 1)
	return f
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

// parser makes trees of the nodes of a file.
type parser struct {
	values int
	broken bool // the tree isn't complete
	faults []finding
}

func (p *parser) fault(line int, format string, values ...any) {
	p.faults = append(p.faults, finding{line: line, text: fmt.Sprintf(format, values...)})
}

// tree returns the tree of a node. Parts with faults are left out.
func (p *parser) tree(n *yaml.Node, up *tree, path string, depth int) *tree {
	t := &tree{line: n.Line, path: path, up: up}
	for ; n.Kind == yaml.AliasNode; n = n.Alias {
		depth++
	}
	p.values++
	switch {
	case p.broken:
		return t
	case depth > maxDepth:
		p.broken = true
		p.fault(t.line, "nested too deeply")
		return t
	case p.values > maxValues:
		p.broken = true
		p.fault(t.line, "the file has more than %d values", maxValues)
		return t
	}
	switch n.Kind {
	case yaml.SequenceNode:
		t.list = make([]*tree, 0, len(n.Content))
		for i, item := range n.Content {
			t.list = append(t.list, p.tree(item, t, fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
	case yaml.MappingNode:
		p.mapping(t, n, depth)
	default:
		if n.Tag != "!!null" {
			t.text = n.Value
		}
	}
	return t
}

// mapping adds the members of a mapping to its tree.
func (p *parser) mapping(t *tree, n *yaml.Node, depth int) {
	t.of = make(map[string]*tree, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		below := strings.TrimPrefix(t.path+"."+key.Value, ".")
		switch first := t.of[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			p.fault(key.Line, "the key isn't plain text")
		case first != nil:
			p.fault(key.Line, "%s: duplicate key, first in line %d", below, first.line)
		default:
			member := p.tree(n.Content[i+1], t, below, depth+1)
			member.line = key.Line
			t.keys, t.of[key.Value] = append(t.keys, key.Value), member
		}
	}
}

// value returns the value as text, []any, map[string]any, or nil.
func (t *tree) value() any {
	switch {
	case t.list != nil:
		list := make([]any, len(t.list))
		for i, item := range t.list {
			list[i] = item.value()
		}
		return list
	case t.of != nil:
		mapping := make(map[string]any, len(t.of))
		for key, member := range t.of {
			mapping[key] = member.value()
		}
		return mapping
	}
	return t.text
}

// find returns the deepest value that the path at the beginning of text leads to, and how long that part of text is.
// Indices in text are those of the lists as they are now.
func (t *tree) find(text string) (found *tree, length int) {
	for i, item := range t.list {
		if index := fmt.Sprintf("[%d]", i); strings.HasPrefix(text, index) {
			found, length = item.find(text[len(index):])
			return found, length + len(index)
		}
	}
	key, dot := "", 0 // the longest one, since keys can have dots
	if strings.HasPrefix(text, ".") {
		dot = 1
	}
	for _, k := range t.keys {
		rest, ok := strings.CutPrefix(text[dot:], k)
		if ok && len(k) > len(key) && (rest == "" || strings.ContainsRune(".[:", rune(rest[0]))) {
			key = k
		}
	}
	if key == "" {
		return t, 0
	}
	found, length = t.of[key].find(text[dot+len(key):])
	return found, dot + len(key) + length
}

// remove removes the value from the list or the mapping that it is in.
func (t *tree) remove() {
	for i, item := range t.up.list {
		if item == t {
			t.up.list = append(t.up.list[:i:i], t.up.list[i+1:]...)
			return
		}
	}
	for i, key := range t.up.keys {
		if t.up.of[key] == t {
			t.up.keys = append(t.up.keys[:i:i], t.up.keys[i+1:]...)
			delete(t.up.of, key)
			return
		}
	}
}
