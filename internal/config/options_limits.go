package config

import (
	"log/slog"
	"math"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/receipt"
)

func limitOptions() []option {
	return []option{
		{
			name: "max-body-bytes", kind: "bytes", def: "1MiB",
			help: "Maximum size of a request's body, and so of a message and of a batch of messages.",
			set:  into(func(c *Config) *int { return &c.Server.MaxBodyBytes }, byteCount),
		},
		{
			name: "body-memory", kind: "bytes", def: "64MiB",
			help: "Memory for the bodies of all requests in progress. Beyond it, a request with a body of more than 1KiB is answered 503.",
			set:  into(func(c *Config) *int { return &c.Server.BodyMemory }, byteCount),
		},
		{
			name: "max-connections", kind: "int", def: "0",
			help: "Maximum number of connections served at a time. Beyond it only probes are served, and other requests are answered 503. 0: as many as the limit on open files allows.",
			set:  into(func(c *Config) *int { return &c.Server.MaxConnections }, intFrom(0)),
		},
		{
			name: "max-streams", kind: "int", def: "250",
			help: "Maximum number of requests in progress on one HTTP/2 connection.",
			set:  into(func(c *Config) *int { return &c.Server.MaxStreams }, intBetween(1, math.MaxInt32/8)),
		},
		{
			name: "max-batch", kind: "int", def: "1000",
			help: "Maximum number of messages in one publish, from 1 to 3000.",
			set:  into(func(c *Config) *int { return &c.Limits.MaxBatch }, intBetween(1, channel.LargestBatch)),
		},
		{
			name: "max-fetch", kind: "int", def: "1000",
			help: "Maximum number of messages that one fetch may ask for.",
			set:  into(func(c *Config) *int { return &c.Limits.MaxMax }, intFrom(1)),
		},
		{
			name: "fetch-bytes", kind: "bytes", def: "4MiB",
			help: "Maximum size of all contents in the answer to one fetch. One message is always returned.",
			set:  into(func(c *Config) *int { return &c.Limits.FetchBytes }, byteCount),
		},
		{
			name: "max-wait", kind: "duration", def: "1m",
			help: "Maximum time that a fetch may ask to wait.",
			set:  into(func(c *Config) *time.Duration { return &c.Limits.MaxWait }, durationBetween(0, forever)),
		},
	}
}

func receiptOptions() []option {
	return []option{
		{
			name: "receipt-keys", kind: kindList,
			help: "Keys that sign receipt handles, each at least 32 bytes in base64: the first signs, all verify. Not set: one that the servers share in Redis. Prefer the variable or the file to the flag.",
			set:  into(func(c *Config) *[]receipt.Key { return &c.Receipts.Keys }, listOf(receiptKey)),
		},
		{
			name: "receipt-keys-file", kind: "file", help: "File with these keys, one per line.",
			set: into(func(c *Config) *string { return &c.Receipts.KeysFile }, anyText),
		},
	}
}

func logOptions() []option {
	return []option{
		{
			name: "log-level", kind: "level", def: "info",
			help: "Lowest level that is logged: debug, info, warn or error.",
			set:  into(func(c *Config) *slog.Level { return &c.Log.Level }, logLevel),
		},
		{
			name: "log-format", kind: "format", def: "text", help: "Format of the log on standard error: text or json.",
			set: into(func(c *Config) *string { return &c.Log.Format }, oneOfWords("text", "json")),
		},
	}
}
