package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
	v1 "github.com/tidemark-dev/tidemark/server/v1"
)

// registerMetrics registers the gauges of connections and of waiting fetches.
func (s *Server) registerMetrics(registry *prometheus.Registry) {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value()) })
	}
	registry.MustRegister(
		gauge("tidemark_http_connections", "Open connections of clients.", s.openConnections),
		gauge("tidemark_waiting_fetches", "Fetches that are waiting for a message.", func() int {
			waiters, _ := s.service.Waiting()
			return waiters
		}),
		gauge("tidemark_listened_channels", "Channels whose notifications are being listened to.", func() int {
			_, channels := s.service.Waiting()
			return channels
		}),
	)
}

// countLimited returns what counts the requests beyond the limits of clients.
func countLimited(registry *prometheus.Registry) (refused func(limit, of string)) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_limited_total", Help: "Requests beyond a limit of their client, by the limit and whose it is.",
	}, []string{"limit", "of"})
	registry.MustRegister(c)
	return func(limit, of string) { c.WithLabelValues(limit, of).Inc() }
}

// countedChannels counts the messages that clients publish, fetch and acknowledge over HTTP.
type countedChannels struct {
	v1.Channels
	published, duplicates, delivered, expired, acks prometheus.Counter
}

func countChannels(channels v1.Channels, registry *prometheus.Registry) *countedChannels {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	return &countedChannels{
		Channels:   channels,
		published:  counter("tidemark_messages_published_total", "Messages published, without duplicates."),
		duplicates: counter("tidemark_messages_duplicates_total", "Messages refused as duplicates of an earlier one."),
		delivered:  counter("tidemark_messages_delivered_total", "Messages in answers to fetches, repeats included."),
		expired: counter("tidemark_messages_expired_total",
			"Messages that fetches skipped because they had expired."),
		acks: counter("tidemark_acks_total", "Receipts acknowledged, repeats included."),
	}
}

// Publish publishes messages and counts them.
func (c *countedChannels) Publish(ctx context.Context, name string, drafts []channel.Draft) ([]channel.Published,
	error) {
	published, err := c.Channels.Publish(ctx, name, drafts)
	for i := range published {
		if published[i].Duplicate {
			c.duplicates.Inc()
		} else {
			c.published.Inc()
		}
	}
	return published, err
}

// Fetch fetches messages and counts them.
func (c *countedChannels) Fetch(ctx context.Context, q channel.Query) (channel.Delivery, error) {
	d, err := c.Channels.Fetch(ctx, q)
	c.count(&d)
	return d, err
}

// Next acknowledges a receipt, if there is one, fetches messages, and counts both.
func (c *countedChannels) Next(ctx context.Context, q channel.Query, handle string) (channel.Delivery, error) {
	d, err := c.Channels.Next(ctx, q, handle)
	if err == nil && handle != "" {
		c.acks.Inc()
	}
	c.count(&d)
	return d, err
}

// Ack acknowledges a receipt and counts it.
func (c *countedChannels) Ack(ctx context.Context, name, subscriber, handle string) error {
	err := c.Channels.Ack(ctx, name, subscriber, handle)
	if err == nil {
		c.acks.Inc()
	}
	return err
}

func (c *countedChannels) count(d *channel.Delivery) {
	c.delivered.Add(float64(len(d.Messages)))
	c.expired.Add(float64(d.Expired))
}
