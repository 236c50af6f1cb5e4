package main

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

const (
	strangers    = 100 // more than the connections of an admin listener
	probesApart  = 200 * time.Millisecond
	revokesApart = 100 * time.Millisecond
)

// holdAdmin keeps connections of the admin listener open, while credentials are revoked through others.
func holdAdmin(s *stage) {
	var asked, cut, revoked atomic.Int64
	address := s.services[0].Admin
	s.attack(strangers+1, attackTime, func(ctx context.Context, number int) error {
		if number == strangers {
			return s.revoke(ctx, &revoked)
		}
		for ctx.Err() == nil {
			asked.Add(hold(ctx, address, number%2 == 0))
			cut.Add(1)
			pace.Sleep(ctx, checkEvery) // the loop checks ctx
		}
		return nil
	})
	s.note("%d probes were answered, %d connections were closed, %d revocations succeeded", asked.Load(), cut.Load(),
		revoked.Load())
	if revoked.Load() == 0 {
		s.complain("no revocation succeeded")
	}
}

// hold keeps a connection open until the service closes it or ctx ends. It sends probes, or nothing, and returns how
// many were answered.
func hold(ctx context.Context, address string, silent bool) (answered int64) {
	conn, err := dialHostile(ctx, address)
	if err != nil {
		return 0
	}
	defer conn.Close() //nolint:errcheck // nothing is left to be written
	buffer := make([]byte, 4<<10)
	for ctx.Err() == nil {
		if !silent {
			if _, err := conn.Write([]byte("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
				return answered
			}
		}
		if _, err := conn.Read(buffer); err != nil {
			return answered
		}
		answered++
		pace.Sleep(ctx, probesApart)
	}
	return answered
}

// revoke revokes a credential again and again, each time on a new connection, until ctx ends. All must succeed.
func (s *stage) revoke(ctx context.Context, revoked *atomic.Int64) error {
	transport := &http.Transport{DisableKeepAlives: true}
	client := http.Client{Transport: transport, Timeout: tryLimit}
	for pace.Sleep(ctx, revokesApart) {
		r := s.admin(http.MethodPost, "/v1/revocations", `{"subject":"mallory"}`)
		if _, err := sendBy(s.Context(), &client, r); err != nil {
			s.complain("a revocation failed: %v", err)
			return nil
		}
		revoked.Add(1)
	}
	return nil
}
