package v1

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/storage"
)

// Info is the content of GET /v1/info.
type Info struct {
	Version  string
	Access   string
	Storage  func() storage.Description
	Warnings []string // about the storage
	Limits   func() channel.Limits
	// Differences returns the differences from the configurations of other servers; nil: there are none.
	Differences func() client.Differences
}

type info struct {
	about   Info
	queues  Queues // nil: no matchmaking
	maxBody int64
}

// show is GET /v1/info.
func (i *info) show(c *web.Call) error {
	limits := i.about.Limits()
	answer := client.Info{
		Version: i.about.Version,
		Access:  i.about.Access,
		Storage: StorageOf(i.about.Storage(), i.about.Warnings),
		Limits: client.Limits{
			MaxChannelBytes: channel.MaxChannelBytes, MaxNameBytes: channel.MaxNameBytes, MaxBodyBytes: i.maxBody,
			MaxBatch:   limits.MaxBatch,
			DefaultMax: limits.DefaultMax, MaxMax: limits.MaxMax, MaxFetchBytes: limits.FetchBytes,
			MaxWaitMillis: limits.MaxWait.Milliseconds(),
		},
	}
	if i.about.Differences != nil {
		answer.Differences = i.about.Differences()
	}
	if i.queues != nil {
		answer.Queues = len(i.queues.Definitions())
	}
	return c.Value(http.StatusOK, answer)
}

// StorageOf returns the JSON of a storage, with the warnings about it.
func StorageOf(s storage.Description, warnings []string) client.Storage {
	return client.Storage{
		Kind: s.Kind, Product: s.Product, Version: s.Version,
		Durability: client.Durability{
			Level: string(s.Durability.Level), AppendOnly: s.Durability.AppendOnly, Fsync: s.Durability.Fsync,
			Replicas: s.Durability.Replicas, EvictionPolicy: s.Durability.EvictionPolicy,
			MaxMemoryBytes: s.Durability.MaxMemoryBytes,
			Warnings:       append([]string{}, warnings...), // never null
		},
	}
}
