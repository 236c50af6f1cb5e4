package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// attackTime is how long most attacks last.
const attackTime = 8 * time.Second

// endurance is the resident memory of a service at which an attack is stopped, to protect the machine.
const endurance = 1 << 30

// attack runs attackers concurrently, until all of them have ended, d has passed, or a service uses too much memory.
func (s *stage) attack(attackers int, d time.Duration, attacker func(ctx context.Context, number int) error) {
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	s.enter(attacked)
	defer s.enter(preparing)
	var running sync.WaitGroup
	errs := make([]error, attackers)
	for i := range attackers {
		running.Go(func() { errs[i] = attacker(ctx, i) })
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	for pace.Sleep(ctx, checkEvery) && !isClosed(done) {
		if now := s.resident(); now > endurance {
			s.complain("the attack was stopped when a service used %d MB of memory", now/miB)
			cancel()
		}
	}
	<-done
	s.Must(errors.Join(errs...))
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// resident returns the largest resident memory of any service.
func (s *stage) resident() int {
	highest := 0
	for _, service := range s.services {
		highest = max(highest, service.Resident())
	}
	return highest
}

// noteMemory records the memory of a service under an attack, and after it.
func (s *stage) noteMemory(format string, args ...any) {
	now := s.resident()
	s.pause(5 * time.Second)
	s.note("%s %d MB of memory, and %d MB 5 s later", fmt.Sprintf(format, args...), now/miB, s.resident()/miB)
}

// request is a request of the scenario itself.
type request struct{ method, url, body string }

// public returns a request to the first service.
func (s *stage) public(method, path, body string) request {
	return request{method, "http://" + s.services[0].HTTP + path, body}
}

// admin returns a request to the listener for administrators of the first service.
func (s *stage) admin(method, path, body string) request {
	return request{method, "http://" + s.services[0].Admin + path, body}
}

// answer is the answer to a request.
type answer struct {
	status int
	size   int64  // of its body
	text   []byte // the beginning of its body
}

// send sends a request as the attacker, and reads its answer. A status from 400 up is an error, too.
func (s *stage) send(ctx context.Context, r request) (answer, error) {
	return sendBy(ctx, &s.hostile, r)
}

func sendBy(ctx context.Context, client *http.Client, r request) (a answer, err error) {
	sent, err := http.NewRequestWithContext(ctx, r.method, r.url, strings.NewReader(r.body))
	if err != nil {
		return a, err
	}
	if r.body != "" {
		sent.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(sent)
	if err != nil {
		return a, err
	}
	defer response.Body.Close() //nolint:errcheck // it has been read
	a.status = response.StatusCode
	a.text, err = io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err == nil {
		a.size, err = io.Copy(io.Discard, response.Body)
	}
	a.size += int64(len(a.text))
	if err == nil && a.status >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %d: %s", r.method, r.url, a.status, a.text)
	}
	return a, err
}

// makers is the number of requests in progress while a scenario is prepared.
const makers = 8

// prepare sends n requests before an attack, each as another client. All must succeed.
func (s *stage) prepare(n int, next func(n int) request) {
	transport := &http.Transport{MaxIdleConnsPerHost: makers, DialContext: dialFrom(preparer).DialContext}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: dispersed{transport}}
	var making errgroup.Group
	making.SetLimit(makers)
	for i := range n {
		making.Go(func() error {
			_, err := sendBy(s.Context(), client, next(i))
			return err
		})
	}
	s.Must(making.Wait())
}

// prepareOne is prepare for one request.
func (s *stage) prepareOne(r request) { s.prepare(1, func(int) request { return r }) }

// prepareChannel subscribes readers to a channel, and publishes messages of a size.
func (s *stage) prepareChannel(channel string, readers, messages, size int) {
	s.prepare(readers, func(n int) request {
		return s.public(http.MethodPut, fmt.Sprintf("/v1/channels/%s/subscribers/r%d", channel, n), `{"from":"earliest"}`)
	})
	content := contentOf(size)
	s.prepare(messages, func(n int) request {
		return s.public(http.MethodPut, fmt.Sprintf("/v1/channels/%s/messages/m%d", channel, n), content)
	})
}

// contentOf returns a JSON string of a size.
func contentOf(size int) string { return `"` + strings.Repeat("x", size-2) + `"` }

// Clients other than the load have addresses of their own: a client's share of the service is that of its address.
const (
	attacker = "127.0.0.2"
	preparer = "127.0.0.3"
)

// dialFrom returns a dialer that connects from an address.
func dialFrom(address string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
}

// dialHostile opens a connection of the attacker, which is closed when ctx ends.
func dialHostile(ctx context.Context, address string) (net.Conn, error) {
	conn, err := dialFrom(attacker).DialContext(ctx, "tcp", address)
	if err == nil {
		context.AfterFunc(ctx, func() { _ = conn.Close() })
	}
	return conn, err
}
