package assigner

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// static assigns the same text to every match, with the match's ID between its pieces.
type static struct {
	pieces []string // the text around each {match}
}

var _ matchmaking.Immediate = (*static)(nil)

// newStatic parses the template: {match} and {queue} are replaced by the match's ID and the queue's name, {{ and }} by
// single braces.
func newStatic(d matchmaking.Definition) (*static, error) {
	s, piece := &static{}, ""
	for rest := d.Assigner.Connection; rest != ""; {
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			piece += rest
			break
		}
		piece, rest = piece+rest[:at], rest[at:]
		if strings.HasPrefix(rest, "{{") || strings.HasPrefix(rest, "}}") {
			piece, rest = piece+rest[:1], rest[2:]
			continue
		}
		name, after, closed := strings.Cut(rest[1:], "}")
		if rest[0] == '}' || !closed || strings.Contains(name, "{") {
			return nil, matchmaking.InvalidKey("assigner.connection",
				fmt.Errorf("single brace at %q: write {{ or }} for a brace", rest))
		}
		switch name {
		case "match":
			s.pieces, piece = append(s.pieces, piece), ""
		case "queue":
			piece += d.Name
		default:
			return nil, matchmaking.InvalidKey("assigner.connection",
				fmt.Errorf("unknown placeholder {%s}: only {match} and {queue} exist", name))
		}
		rest = after
	}
	s.pieces = append(s.pieces, piece)
	return s, nil
}

// Allocate returns the text.
func (s *static) Allocate(_ context.Context, p matchmaking.Proposal) (matchmaking.Allocation, error) {
	if len(s.pieces) == 1 {
		return matchmaking.Allocation{Connection: s.pieces[0]}, nil
	}
	return matchmaking.Allocation{Connection: strings.Join(s.pieces, p.ID)}, nil
}

// Immediate reports that Allocate does not block.
func (s *static) Immediate() bool { return true }

// Release does nothing.
func (s *static) Release(context.Context, string, matchmaking.Allocation) error { return nil }
