package lua

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// The lines of comments that the linker reads. They start at the beginning of a line.
const (
	usesMark   = "-- uses: "
	defineMark = "-- define: "
)

// library is all of the files.
type library struct {
	scripts     map[string]part // by names such as "channels/publish"
	definitions map[string]part // by names such as "clock.add"
}

// part is a script or a definition.
type part struct {
	shebang string   // the first line of a script that begins with #!
	uses    []string // names of definitions
	code    string   // without comments
}

// parse reads all files of a tree. It fails if two definitions have the same name.
func parse(files fs.FS) (*library, error) {
	lib := &library{scripts: map[string]part{}, definitions: map[string]part{}}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if folder := path.Base(path.Dir(name)); folder == "lib" || folder == "shared" {
			return lib.addDefinitions(strings.TrimSuffix(path.Base(name), ".lua"), string(text))
		}
		lib.scripts[strings.TrimSuffix(name, ".lua")] = parsePart(string(text))
		return nil
	})
	return lib, err
}

// addDefinitions adds what a library file defines. What comes before its first definition is a comment.
func (l *library) addDefinitions(file, text string) error {
	for _, section := range strings.Split("\n"+text, "\n"+defineMark)[1:] {
		name, body, _ := strings.Cut(section, "\n")
		name = file + "." + name
		if _, ok := l.definitions[name]; ok {
			return fmt.Errorf("lua: %s is defined twice", name)
		}
		l.definitions[name] = parsePart(body)
	}
	return nil
}

// parsePart separates code from comments, and finds what the code uses.
func parsePart(text string) part {
	var p part
	var code strings.Builder
	for line := range strings.Lines(text) {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "#!"):
			p.shebang = line
		case strings.HasPrefix(line, usesMark):
			p.uses = append(p.uses, strings.Fields(line[len(usesMark):])...)
		case trimmed != "" && !strings.HasPrefix(trimmed, "--"):
			code.WriteString(line)
		}
	}
	p.code = code.String()
	return p
}

// link returns the text of a script: its #! line, the definitions that it uses, and its own code.
func (l *library) link(name string) (string, error) {
	script, ok := l.scripts[name]
	if !ok {
		return "", fmt.Errorf("lua: no script %s", name)
	}
	var out strings.Builder
	out.WriteString(script.shebang)
	if err := l.write(&out, map[string]bool{}, script.uses); err != nil {
		return "", fmt.Errorf("lua: script %s: %w", name, err)
	}
	out.WriteString(script.code)
	return out.String(), nil
}

// write writes definitions that aren't written yet, each after those that it uses.
func (l *library) write(out *strings.Builder, written map[string]bool, names []string) error {
	for _, name := range names {
		definition, ok := l.definitions[name]
		if !ok {
			return fmt.Errorf("%s is not defined", name)
		}
		if done, begun := written[name]; begun {
			if !done {
				return fmt.Errorf("%s uses itself", name)
			}
			continue
		}
		written[name] = false
		if err := l.write(out, written, definition.uses); err != nil {
			return err
		}
		written[name] = true
		out.WriteString(definition.code)
	}
	return nil
}
