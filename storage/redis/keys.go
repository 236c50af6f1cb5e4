package redis

// readyTopic returns the topic of one connection, on which it checks that messages arrive.
func readyTopic(prefix, server string) string { return prefix + "tidemark.ready.{" + server + "}" }

// readyKey returns the key that one connection writes to check that it can.
func readyKey(prefix, server string) string { return readyTopic(prefix, server) + ".check" }
