package lua

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// library has all files.
type library struct {
	scripts map[string]part             // by names such as "channels/publish"
	tables  map[string]map[string]table // by domain, or "shared", and the table's name
}

// table is a library file: a Lua table and its members.
type table map[string]part

// part is a script or a member of a table.
type part struct {
	shebang string // the first line of a script that begins with #!
	code    string // without comments
}

// shared is the domain of the tables that the scripts of all domains may use.
const shared = "shared"

// parse reads all files of a tree. It fails if a library file isn't a table with the file's name, or if two tables that a
// script may use have the same name.
func parse(files fs.FS) (*library, error) {
	lib := &library{scripts: map[string]part{}, tables: map[string]map[string]table{}}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		domain := domainOf(name)
		if domain == shared || path.Base(path.Dir(name)) == "lib" {
			return lib.addTable(domain, strings.TrimSuffix(path.Base(name), ".lua"), string(text))
		}
		lib.scripts[strings.TrimSuffix(name, ".lua")] = parsePart(string(text))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lib, lib.checkNames()
}

// domainOf returns the first folder of a path.
func domainOf(name string) string {
	domain, _, _ := strings.Cut(name, "/")
	return domain
}

// memberLine begins a member: a function, or a constant in capital letters.
var memberLine = regexp.MustCompile(`^(?:function (\w+)\.(\w+)\(|(\w+)\.([A-Z][A-Z_]*) = )`)

// addTable adds a library file.
func (l *library) addTable(domain, name, text string) error {
	members := table{}
	begun, member := false, ""
	for line := range strings.Lines(parsePart(text).code) {
		switch m := memberLine.FindStringSubmatch(line); {
		case !begun && line == "local "+name+" = {}\n":
			begun = true
			continue
		case !begun:
			return fmt.Errorf("lua: table %s begins with %q", name, line)
		case m != nil && m[1]+m[3] != name:
			return fmt.Errorf("lua: table %s has a member of another one: %q", name, line)
		case m != nil:
			member = m[2] + m[4]
			if _, ok := members[member]; ok {
				return fmt.Errorf("lua: %s.%s is defined twice", name, member)
			}
		case member == "":
			return fmt.Errorf("lua: table %s has something in front of its members: %q", name, line)
		}
		members[member] = part{code: members[member].code + line}
	}
	if l.tables[domain] == nil {
		l.tables[domain] = map[string]table{}
	}
	l.tables[domain][name] = members
	return nil
}

// checkNames fails if a domain and shared have tables of the same name.
func (l *library) checkNames() error {
	for domain, tables := range l.tables {
		for name := range tables {
			if _, ok := l.tables[shared][name]; ok && domain != shared {
				return fmt.Errorf("lua: table %s is defined twice", name)
			}
		}
	}
	return nil
}

// parsePart separates code from comments.
func parsePart(text string) part {
	var p part
	var code strings.Builder
	for line := range strings.Lines(text) {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "#!"):
			p.shebang = line
		case trimmed != "" && !strings.HasPrefix(trimmed, "--"):
			code.WriteString(line)
		}
	}
	p.code = code.String()
	return p
}

// tokenLength returns the length of the first token of code: a string, a comment, a name with what follows it after
// dots and colons, or another byte.
func tokenLength(code string) int {
	switch {
	case code[0] == '\'':
		if end := strings.IndexAny(code[1:], "'\n"); end >= 0 && code[1+end] == '\'' {
			return 1 + end + 1
		}
	case strings.HasPrefix(code, "--"):
		if end := strings.IndexByte(code, '\n'); end >= 0 {
			return end
		}
		return len(code)
	}
	n := 0
	for n < len(code) && isWord(code[n]) {
		n++
		if n+1 < len(code) && (code[n] == '.' || code[n] == ':') && isWord(code[n+1]) {
			n++
		}
	}
	return max(n, 1)
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// link returns the text of a script: its #! line, the members that it uses, and its own code.
func (l *library) link(name string) (string, error) {
	script, ok := l.scripts[name]
	if !ok {
		return "", fmt.Errorf("lua: no script %s", name)
	}
	n := linking{library: l, domain: domainOf(name), written: map[string]bool{}}
	code, err := n.resolve(script.code)
	if err != nil {
		return "", fmt.Errorf("lua: script %s: %w", name, err)
	}
	return script.shebang + n.members.String() + code, nil
}

// linking is the text in front of one script's own code, as far as it is written.
type linking struct {
	*library
	domain  string
	members strings.Builder
	written map[string]bool // by names such as "clocks.add"; false: what the member uses isn't written yet
}

// resolve returns code with the local names of the members that it uses, and writes those that aren't written yet.
func (n *linking) resolve(code string) (string, error) {
	var resolved strings.Builder
	for len(code) > 0 {
		text := code[:tokenLength(code)]
		code = code[len(text):]
		if name, member, ok := strings.Cut(text, "."); ok && n.table(name) != nil {
			if err := n.write(n.table(name), text, member); err != nil {
				return "", err
			}
			text = local(text)
		}
		resolved.WriteString(text)
	}
	return resolved.String(), nil
}

// table returns the table that the script's domain, or else all domains, have by a name, or nil.
func (n *linking) table(name string) table {
	if t := n.tables[n.domain][name]; t != nil {
		return t
	}
	return n.tables[shared][name]
}

// write writes a member after those that it uses, unless it is written.
func (n *linking) write(t table, name, member string) error {
	definition, ok := t[member]
	if !ok {
		return fmt.Errorf("%s is not defined", name)
	}
	if done, started := n.written[name]; started {
		if !done {
			return fmt.Errorf("%s uses itself", name)
		}
		return nil
	}
	n.written[name] = false
	first, rest, _ := strings.Cut(definition.code, name)
	rest, err := n.resolve(rest)
	if err != nil {
		return err
	}
	n.written[name] = true
	n.members.WriteString("local " + first + local(name) + rest)
	return nil
}

// local returns the name that a member has in the text of a script.
func local(name string) string { return strings.Replace(name, ".", "__", 1) }
