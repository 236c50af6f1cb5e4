// Package suggest finds the names that were probably meant by a name that does not exist.
package suggest

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Hint returns "; did you mean …?" for names that were probably meant, or "" if there are none.
func Hint(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(slices.Compact(names), " or ") + "?"
}

// Near returns the names that differ from word in at most two letters, or that start with it. It returns none for a
// word of one or two letters.
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
