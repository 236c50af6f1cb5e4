package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// hint returns "; did you mean …?" for names that somebody may have meant, or "" for none.
func hint(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(slices.Compact(names), " or ") + "?"
}

// near returns the names that differ from word in two letters at most, or that begin with it. Words of one or two
// letters are near to nothing.
func near(word string, names []string) []string {
	if len(word) < 3 {
		return nil
	}
	index := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, name := range names {
		index.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return index.SuggestionsFor(word)
}

// unknownFlag returns a hint at the flags of cmd, where err is about one that it does not have.
func unknownFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	meant := near(unknown.GetSpecifiedName(), names)
	for i := range meant {
		meant[i] = "--" + meant[i]
	}
	return hint(meant)
}

// suggest returns a hint at the option that somebody may have meant who wrote key, by the name that it has there.
func suggest(key string, name func(option) string) string {
	plain := func(s string) string {
		s = strings.TrimPrefix(strings.ToLower(s), strings.ToLower(envPrefix))
		return strings.NewReplacer("-", "", "_", "").Replace(s)
	}
	names, byPlain := []string{}, map[string]string{}
	for _, o := range allOptions() {
		names, byPlain[plain(o.name)] = append(names, plain(o.name)), name(o)
	}
	if exact := byPlain[plain(key)]; exact != "" {
		return hint([]string{exact})
	}
	meant := near(plain(key), names)
	for i := range meant {
		meant[i] = byPlain[meant[i]]
	}
	return hint(meant) + "; see tidemark serve --help"
}
