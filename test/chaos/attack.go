package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
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
	for pace.Sleep(ctx, checkEvery) && !closed(done) {
		if now := s.resident(); now > endurance {
			s.complain("the attack was stopped when a service used %d MB of memory", now/miB)
			cancel()
		}
	}
	<-done
	s.Must(errors.Join(errs...))
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// attackAgain runs attackers concurrently for attackTime. Each calls do again and again, with pauses.
func (s *stage) attackAgain(attackers int, do func(ctx context.Context, number int)) {
	s.attack(attackers, attackTime, func(ctx context.Context, number int) error {
		for pace.Sleep(ctx, checkEvery) {
			do(ctx, number)
		}
		return nil
	})
}

// answers counts the answers to the requests of an attack.
type answers struct {
	mu        sync.Mutex
	statuses  map[int]int // 0: no answer
	succeeded int         // answers that weren't refused, and were read to their end
	failed    int         // requests that were refused, broke, or had no answer in time
	bytes     int64       // of those that succeeded
}

func (a *answers) add(got answer, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.statuses[got.status]++
	if err != nil {
		a.failed++
		return
	}
	a.succeeded++
	a.bytes += got.size
}

// barrage is requests that clients send one after the other for some time.
type barrage struct {
	clients int
	limit   time.Duration
	next    func(client, n int) request
	enough  func(err error) bool           // whether a client ends after a request; nil: it doesn't
	pause   func(status int) time.Duration // after a request that was refused or broke; nil: none
}

// send sends the requests.
func (b barrage) send(s *stage) *answers {
	all := &answers{statuses: map[int]int{}}
	s.attack(b.clients, b.limit, func(ctx context.Context, client int) error {
		for n := 0; ctx.Err() == nil; n++ {
			a, err := s.send(ctx, b.next(client, n))
			all.add(a, err)
			if b.enough != nil && b.enough(err) {
				return nil
			}
			if err != nil && b.pause != nil {
				pace.Sleep(ctx, b.pause(a.status)) // the loop checks ctx
			}
		}
		return nil
	})
	return all
}

// floodPause is how long an attacker waits after an answer 429: it runs on the cores of the service.
const floodPause = 5 * time.Millisecond

// repeat sends these requests in turn on each of the attacker's connections, and records how many were answered with
// which status.
func (s *stage) repeat(requests ...request) {
	all := barrage{
		clients: costlyClients, limit: attackTime,
		next: func(_, n int) request { return requests[n%len(requests)] },
		pause: func(status int) time.Duration {
			if status == http.StatusTooManyRequests {
				return floodPause
			}
			return 0
		},
	}.send(s)
	delete(all.statuses, 0) // the service may break connections
	var texts []string
	for _, status := range slices.Sorted(maps.Keys(all.statuses)) {
		texts = append(texts, fmt.Sprintf("%d with %d", all.statuses[status], status))
	}
	s.note("requests were answered: %s", strings.Join(texts, ", "))
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

// prepareOne is prepare for a single request.
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
