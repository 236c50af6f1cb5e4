package assigner

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const generous = matchmaking.Duration(time.Minute)

// service is a service for assigners. It returns the configured responses, repeating the last one, and records
// requests.
type service struct {
	*httptest.Server
	mu      sync.Mutex
	answers []reply
	got     []received
}

type reply struct {
	status     int
	body       string
	retryAfter string
	broken     bool // the connection is closed in the middle of the response
}

type received struct {
	path   string
	header http.Header
	body   []byte
}

// serve starts a service that stops with the test.
func serve(t *testing.T, answers ...reply) *service {
	t.Helper()
	s := &service{answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	answer := s.keep(received{path: r.URL.Path, header: r.Header, body: body})
	if answer.broken {
		panic(http.ErrAbortHandler)
	}
	if answer.retryAfter != "" {
		w.Header().Set("Retry-After", answer.retryAfter)
	}
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, answer.body)
}

func (s *service) keep(r received) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, r)
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return answer
}

func (s *service) calls() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.got...)
}

// build returns an assigner of the queue duel.
func build(t *testing.T, by matchmaking.AssignBy) matchmaking.Assigner {
	t.Helper()
	a, err := New(matchmaking.Definition{Name: "duel", Assigner: by}, nil)
	require.NoError(t, err)
	return a
}

// proposal is a match of two tickets.
func proposal() matchmaking.Proposal {
	spec := matchmaking.Spec{
		SearchFields: matchmaking.SearchFields{Tags: []string{"eu"}},
		Extensions:   map[string]json.RawMessage{"name": json.RawMessage(`"Ann <3"`)},
	}
	return matchmaking.Proposal{
		ID: "match-1",
		Teams: [][]*matchmaking.Ticket{
			{{ID: "ann", CreateTime: time.Unix(7, 0).UTC(), Spec: spec}},
			{{ID: "bob"}},
		},
		Extensions: map[string]json.RawMessage{"map": json.RawMessage(`"dust"`)},
	}
}
