package access

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/names"
)

// MaxPatternBytes is the longest pattern.
const MaxPatternBytes = 256

// Pattern matches names. "*" matches any text, also none. {sub} is replaced by Principal.ChannelName, in owners and
// records by the subject, and {name} by the text that the group with this name captured in the rule of the channel; both
// match literally: a subject "a*" matches only itself. If a replacement is empty or doesn't exist, the pattern matches
// nothing.
//
// A Pattern is immutable. The zero Pattern matches nothing.
type Pattern struct {
	text  string
	parts []part // the texts between the stars: one more than there are stars
}

// part is text without stars: pieces in a row.
type part []piece

// piece is literal text, or the name of a replacement.
type piece struct {
	text    string
	subject bool // replaced by the subject
	capture bool // replaced by the text that the group named text captured
}

// inserted matches the names of replacements.
var inserted = regexp.MustCompile(`\{(\w+)\}`)

// ParsePattern parses a pattern of a grant.
func ParsePattern(text string) (Pattern, error) {
	switch {
	case text == "":
		return Pattern{}, errors.New("is empty: it would match nothing")
	case len(text) > MaxPatternBytes:
		return Pattern{}, fmt.Errorf("%.32q… has %d bytes, at most %d are allowed", text, len(text), MaxPatternBytes)
	case strings.ContainsAny(inserted.ReplaceAllLiteralString(text, ""), "{}"):
		return Pattern{}, fmt.Errorf("%.64q has a brace that belongs to no {sub} or {capture}", text)
	}
	return compile(text, cutInserted, func(name string) piece {
		return piece{text: name, subject: name == "sub", capture: name != "sub"}
	}), nil
}

func cutInserted(text string) (before, name, after string, found bool) {
	m := inserted.FindStringSubmatchIndex(text)
	if m == nil {
		return text, "", "", false
	}
	return text[:m[0]], text[m[2]:m[3]], text[m[1]:], true
}

// compile returns a pattern. cut finds the next name of a replacement, and of returns the piece for it.
func compile(text string, cut func(string) (before, name, after string, found bool),
	of func(name string) piece) Pattern {
	p := Pattern{text: text}
	for rest := range strings.SplitSeq(text, "*") {
		var pieces part
		for found := true; found; {
			var before, name string
			if before, name, rest, found = cut(rest); before != "" {
				pieces = append(pieces, piece{text: before})
			}
			if found {
				pieces = append(pieces, of(name))
			}
		}
		p.parts = append(p.parts, pieces)
	}
	return p
}

// checkForeign returns an error if the pattern has two stars in a row, or a character that no name has: inNames reports
// whether names can contain it. nil: they can contain any.
func (p Pattern) checkForeign(inNames func(rune) bool) error {
	if strings.Contains(p.text, "**") {
		return fmt.Errorf("%.64q has two stars in a row: one matches any text, dots, colons and slashes included", p.text)
	}
	for i, part := range p.parts {
		for j := range part {
			piece := &part[j]
			if inNames == nil || piece.subject || piece.capture {
				continue
			}
			for at, r := range piece.text {
				if begins := i == 0 && j == 0 && at == 0; !inNames(r) || begins && !names.CanBegin(r) {
					return errForeign(p.text, r, begins)
				}
			}
		}
	}
	return nil
}

// errForeign is the error of a pattern that no name matches because of a character.
func errForeign(pattern string, r rune, begins bool) error {
	has := "has"
	if begins {
		has = "begins with"
	}
	const instead = "a grant has no regular expression, but * for any text, {sub}, and {name} for what a rule captured"
	return fmt.Errorf("%.64q matches nothing, since no name %s %q: %s", pattern, has, r, instead)
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// MarshalText returns the pattern as it was written.
func (p Pattern) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// UnmarshalText is ParsePattern.
func (p *Pattern) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePattern(string(text))
	return err
}

// matches reports whether the whole of text matches.
func (p *Pattern) matches(text string, v *request) bool {
	if len(p.parts) == 0 {
		return false
	}
	at, ok := p.parts[0].prefix(text, v)
	if !ok || len(p.parts) == 1 {
		return ok && at == len(text)
	}
	text = text[at:]
	last := len(p.parts) - 1
	for _, middle := range p.parts[1:last] {
		for {
			if at, ok = middle.prefix(text, v); ok {
				break
			}
			if text == "" {
				return false
			}
			text = text[1:]
		}
		text = text[at:]
	}
	n := p.parts[last].size(v)
	if n > len(text) {
		return false
	}
	_, ok = p.parts[last].prefix(text[len(text)-n:], v)
	return ok
}

// matchesAny reports whether there is a text that matches: no replacement is empty.
func (p Pattern) matchesAny(v *request) bool {
	for _, part := range p.parts {
		for i := range part {
			if part[i].value(v) == "" {
				return false
			}
		}
	}
	return len(p.parts) > 0
}

// prefix reports whether text begins with the part, and how many bytes that is.
func (s part) prefix(text string, v *request) (n int, ok bool) {
	for i := range s {
		value, remain := s[i].value(v), len(text)-n
		if value == "" || !strings.HasPrefix(text[n:], value) {
			return 0, false
		}
		if s[i].subject && remain-len(value) < v.barred && v.barred <= remain {
			return 0, false
		}
		n += len(value)
	}
	return n, true
}

func (s part) size(v *request) (n int) {
	for i := range s {
		n += len(s[i].value(v))
	}
	return n
}

// value returns the text of the piece, or "" if there is none.
func (p *piece) value(v *request) string {
	switch {
	case p.subject:
		return v.subject
	case p.capture:
		return v.capture(p.text)
	}
	return p.text
}
