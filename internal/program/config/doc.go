// Package config reads the options of `tidemark serve` and `tidemark shard serve`: from flags, over environment
// variables, over a YAML file, over defaults.
//
// Start at [Load] and [LoadNode], which return a [Config] whose values are checked, each for itself and against the
// others. An error names the option as its source knows it: the flag, the variable, or the file and its key. An option
// is defined once, in table.go; its three names, the help text ([WriteHelp]) and the table in docs/options.md
// ([Table]) follow from the definition.
//
// The package reads the files that options name; connecting and listening are left to cmd/tidemark. A Config may be
// read by any number of goroutines.
package config
