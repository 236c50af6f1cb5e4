package redis

import "strings"

// readyTopic returns the topic of one connection, on which it checks that messages arrive. tag is its name, followed by
// a number for further primaries of a Cluster.
func readyTopic(prefix, tag string) string { return prefix + "tidemark.ready.{" + tag + "}" }

// readyKey returns the key that one connection writes to check that it can.
func readyKey(prefix, tag string) string { return readyTopic(prefix, tag) + ".check" }

// Literal quotes the special characters of a pattern.
func Literal(text string) string { return literal.Replace(text) }

var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
