package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxFaults is how many faults are reported at once.
const maxFaults = 100

// Faults are the faults of a configuration: a line for each fault, those of the file first, with their lines in it.
type Faults []string

// Error returns the faults, one on each line.
func (f Faults) Error() string { return strings.Join(f, "\n") }

// finding is one fault.
type finding struct {
	file string // "": none
	line int    // of the file
	text string
}

func (f finding) String() string {
	if f.file == "" {
		return f.text
	}
	return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.text)
}

// findings collects faults while a configuration is read.
type findings struct {
	faults  []finding
	wrong   map[string]bool   // keys of options with a fault
	origins map[string]source // the strongest source of each key
}

func newFindings() *findings {
	return &findings{wrong: map[string]bool{}, origins: map[string]source{}}
}

func (f *findings) add(found finding) {
	if !slices.Contains(f.faults, found) {
		f.faults = append(f.faults, found)
	}
}

// check adds the fault of a check of options against each other, unless one of them is wrong already: its value isn't
// known. The error begins with a key, of one of the options or not. The fault has the line of the first option in the
// file.
func (f *findings) check(run func() error, keys ...string) {
	for _, key := range keys {
		if f.wrong[key] {
			return
		}
	}
	err := run()
	if err == nil {
		return
	}
	key, _, _ := strings.Cut(err.Error(), ":")
	if s := f.origins[key[:max(strings.IndexAny(key+".", ".["), 0)]]; s.tree != nil {
		f.add(s.faultOf(key, err))
		return
	}
	for _, key := range keys {
		if s := f.origins[key]; s.tree != nil {
			f.add(finding{file: s.file, line: s.tree.of[key].line, text: err.Error()})
			return
		}
	}
	f.add(finding{text: err.Error()})
}

// err returns the faults, or nil.
func (f *findings) err() error {
	if len(f.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(f.faults, func(a, b finding) int {
		return cmp.Or(strings.Compare(b.file, a.file), cmp.Compare(a.line, b.line))
	})
	var lines Faults
	for i, found := range f.faults {
		if i == maxFaults {
			lines = append(lines, fmt.Sprintf("and %d more faults", len(f.faults)-i))
			break
		}
		lines = append(lines, strings.Join(strings.Fields(found.String()), " "))
	}
	return lines
}
