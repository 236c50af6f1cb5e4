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
			help: "Size of a request's body at most. No message may be larger, and no batch of messages.",
			set:  into(func(c *Config) *int { return &c.MaxBodyBytes }, parseBytes),
		},
		{
			name: "body-memory", kind: "bytes", def: "64MiB",
			help: "Memory that the bodies of requests under way may take together. Beyond it a request with a body of more than 1KiB is answered 503.",
			set:  into(func(c *Config) *int { return &c.BodyMemory }, parseBytes),
		},
		{
			name: "max-connections", kind: "int", def: "0",
			help: "Connections that are served at a time. Beyond it only probes and metrics are, and all else is answered 503. 0: as many as the limit on open files allows.",
			set:  into(func(c *Config) *int { return &c.MaxConnections }, intFrom(0)),
		},
		{
			name: "max-streams", kind: "int", def: "250",
			help: "Requests that one HTTP/2 connection may have open at a time.",
			set:  into(func(c *Config) *int { return &c.MaxStreams }, intBetween(1, math.MaxInt32/8)),
		},
		{
			name: "max-batch", kind: "int", def: "1000",
			help: "Messages that one request may publish at most, from 1 to 3000.",
			set:  into(func(c *Config) *int { return &c.Limits.MaxBatch }, intBetween(1, channel.LargestBatch)),
		},
		{
			name: "max-fetch", kind: "int", def: "1000",
			help: "Messages that one fetch may ask for at most.",
			set:  into(func(c *Config) *int { return &c.Limits.MaxMax }, intFrom(1)),
		},
		{
			name: "fetch-bytes", kind: "bytes", def: "4MiB",
			help: "Bytes of contents that one fetch answers with at most, but always one message.",
			set:  into(func(c *Config) *int { return &c.Limits.FetchBytes }, parseBytes),
		},
		{
			name: "max-wait", kind: "duration", def: "1m",
			help: "How long a fetch may ask to wait at most.",
			set:  into(func(c *Config) *time.Duration { return &c.Limits.MaxWait }, durationFrom(0, forever)),
		},
	}
}

func receiptOptions() []option {
	return []option{
		{
			name: "receipt-keys", kind: kindList,
			help: "Keys that sign receipt handles, each at least 32 bytes in base64: the first signs, all verify. Not set: one that the servers share in Redis. Prefer the variable or the file to the flag.",
			set:  into(func(c *Config) *[]receipt.Key { return &c.ReceiptKeys }, listOf(parseReceiptKey)),
		},
		{
			name: "receipt-keys-file", kind: "file", help: "File with these keys, one a line.",
			set: into(func(c *Config) *string { return &c.ReceiptKeysFile }, parseText),
		},
	}
}

func logOptions() []option {
	return []option{
		{
			name: "log-level", kind: "level", def: "info", help: "The least that is logged: debug, info, warn or error.",
			set: into(func(c *Config) *slog.Level { return &c.LogLevel }, parseLogLevel),
		},
		{
			name: "log-format", kind: "format", def: "text", help: "How it is logged to standard error: text or json.",
			set: into(func(c *Config) *string { return &c.LogFormat }, oneOf("text", "json")),
		},
	}
}
