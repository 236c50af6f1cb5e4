// Package suggest finds the names that somebody may have meant who wrote a name that doesn't exist.
package suggest

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Hint returns "; did you mean …?" for names that were meant perhaps, or "" for none.
func Hint(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(slices.Compact(names), " or ") + "?"
}

// Near returns the names that differ from word in two letters at most, or that begin with it. Words of one or two
// letters are near to nothing.
func Near(word string, names []string) []string {
	if len(word) < 3 {
		return nil
	}
	index := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, name := range names {
		index.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return index.SuggestionsFor(word)
}
