package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/wire"
)

// info is GET /v1/info.
func (s *Server) info(c *call) error {
	limits, queues := s.service.Limits(), 0
	if s.matches != nil {
		queues = len(s.matches.Definitions())
	}
	return c.value(http.StatusOK, wire.Info{
		Version: s.options.Version,
		Storage: storageOf(s.options.Storage()),
		Limits: wire.Limits{
			MaxNameBytes: channel.MaxNameBytes, MaxBodyBytes: s.options.MaxBodyBytes, MaxBatch: limits.MaxBatch,
			DefaultMax: limits.DefaultMax, MaxMax: limits.MaxMax, MaxFetchBytes: limits.FetchBytes,
			MaxWaitMillis: limits.MaxWait.Milliseconds(),
		},
		Queues: queues,
	})
}

func storageOf(s channel.Storage) wire.Storage {
	return wire.Storage{
		Kind: s.Kind, Product: s.Product, Version: s.Version,
		Durability: wire.Durability{
			Level: string(s.Durability.Level), AppendOnly: s.Durability.AppendOnly, Fsync: s.Durability.Fsync,
			Replicas: s.Durability.Replicas, EvictionPolicy: s.Durability.EvictionPolicy,
			MaxMemoryBytes: s.Durability.MaxMemoryBytes,
			Warnings:       append([]string{}, s.Durability.Warnings...), // never null
		},
	}
}

// live is GET /livez: the process answers.
func (s *Server) live(c *call) error { return c.value(http.StatusOK, wire.Status{Status: "ok"}) }

// ready is GET /readyz: requests can be served, and the server isn't about to end.
func (s *Server) ready(c *call) error {
	if err := s.checkReady(c); err != nil {
		return err
	}
	return c.value(http.StatusOK, wire.Status{Status: "ok"})
}

// readyTimeout is how long a readiness probe waits for Redis.
const readyTimeout = 5 * time.Second

func (s *Server) checkReady(c *call) error {
	if s.draining.Load() {
		return errDraining
	}
	ctx, cancel := context.WithTimeout(c.request.Context(), readyTimeout)
	defer cancel()
	err := s.options.Ready(ctx)
	var told *fault.Error
	if err == nil || errors.As(err, &told) && told.Kind == fault.Unavailable {
		return err
	}
	return fault.ErrUnavailable.WithCause(err)
}
