package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	entities "github.com/tidemark-dev/tidemark/internal/records"
)

// site answers the calls of the page.
type site struct {
	log      *slog.Logger
	forum    *forum
	records  *records.Client
	channels *client.Client
	mail     *outbox
}

// caller is the user who sends a request.
type caller struct {
	id      entities.ID // "" for a visitor
	session string      // the ID of the session
}

// handler handles a request of a caller and returns the answer, which is sent as JSON.
type handler func(r *http.Request, who caller) (any, error)

// routes returns the forum's API. The session's token is sent in a header and never in a cookie: a page of another site
// can't make a browser send it.
func (s *site) routes(mux *http.ServeMux) {
	for pattern, h := range map[string]handler{
		"POST /api/register":        s.register,
		"POST /api/verify":          s.verify,
		"POST /api/login":           s.login,
		"GET /api/mail":             s.showMail,
		"GET /api/topics":           s.showTopics,
		"GET /api/topics/{id}":      s.showTopic,
		"GET /api/authors/{id}":     s.showAuthor,
		"GET /api/posts/{id}":       s.showPost,
		"GET /api/posts/{id}/views": s.showViews,
		"GET /api/search":           s.search,
	} {
		mux.Handle(pattern, s.open(h))
	}
	for pattern, h := range map[string]handler{
		"GET /api/me":                     s.showMe,
		"DELETE /api/sessions":            s.logoutEverywhere,
		"DELETE /api/sessions/{id}":       s.logout,
		"POST /api/topics/{id}/posts":     s.publish,
		"PUT /api/posts/{id}":             s.edit,
		"POST /api/posts/{id}/lock":       s.lock,
		"DELETE /api/posts/{id}/lock":     s.unlock,
		"PUT /api/follows/{sort}/{id}":    s.follow,
		"DELETE /api/follows/{sort}/{id}": s.follow,
	} {
		mux.Handle(pattern, s.members(h))
	}
}

// members serves callers with a session.
func (s *site) members(h handler) http.Handler {
	return s.open(func(r *http.Request, _ caller) (any, error) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			return nil, records.ErrNoSession
		}
		session, err := s.records.CheckSession(r.Context(), token)
		if err != nil {
			return nil, err
		}
		return h(r, caller{entities.ID(session.User), session.ID})
	})
}

const maxBody = 64 << 10

// open serves all callers.
func (s *site) open(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		answer, err := h(r, caller{})
		status := http.StatusOK
		if err != nil {
			status = s.statusOf(r, err)
			answer = map[string]string{"error": err.Error()}
			if status == http.StatusInternalServerError {
				answer = map[string]string{"error": "this doesn't work now, try again later"}
			}
		}
		header := w.Header()
		header.Set("Content-Type", "application/json")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer) // only the browser can be gone
	})
}

// statusOf returns the status for an error, and logs one that the user can't do anything about.
func (s *site) statusOf(r *http.Request, err error) int {
	switch {
	case errors.Is(err, records.ErrNoSession):
		return http.StatusUnauthorized
	case errors.Is(err, errNotFound), errors.Is(err, records.ErrNoVerification):
		return http.StatusNotFound
	case errors.Is(err, errTaken), errors.Is(err, records.ErrLockHeld), errors.Is(err, records.ErrLockLost):
		return http.StatusConflict
	case errors.Is(err, errPassword), errors.Is(err, errNotYours):
		return http.StatusForbidden
	case errors.Is(err, errInput), errors.Is(err, records.ErrInvalidID):
		return http.StatusBadRequest
	}
	s.log.Error("a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	return http.StatusInternalServerError
}

// read decodes the body of a request.
func read[T any](r *http.Request) (body T, err error) {
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return body, fmt.Errorf("%w: %w", errInput, err)
	}
	return body, nil
}

// idIn returns the ID in the path.
func idIn(r *http.Request) entities.ID { return entities.ID(r.PathValue("id")) }
