package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/tidemark-dev/tidemark/client/records"
	entities "github.com/tidemark-dev/tidemark/internal/records"
)

// outbox keeps the last mails, which this example shows on its page in place of sending them.
type outbox struct {
	log   *slog.Logger
	mu    sync.Mutex
	mails []mail
}

type mail struct {
	To    string `json:"to"`
	Text  string `json:"text"`
	Token string `json:"token"`
}

func (o *outbox) send(m mail) {
	o.log.Info("a mail", "to", m.To, "text", m.Text)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mails = append(o.mails[max(0, len(o.mails)-9):], m)
}

func (s *site) showMail(*http.Request, caller) (any, error) {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	return append([]mail{}, s.mail.mails...), nil // never null
}

// register adds a user, and sends a token that verifies the address.
func (s *site) register(r *http.Request, _ caller) (any, error) {
	body, err := read[struct{ Name, Email, Password string }](r)
	if err != nil {
		return nil, err
	}
	a, err := s.forum.register(strings.TrimSpace(body.Name), body.Email, body.Password)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(map[string]string{"email": a.Email})
	if err != nil {
		return nil, err
	}
	issued, err := s.records.IssueVerification(r.Context(), string(a.ID), records.EmailVerification, data)
	if err != nil {
		return nil, err
	}
	s.mail.send(mail{To: a.Email, Text: "Welcome, " + a.Name + "! Please verify your address.", Token: issued.Token})
	return struct{}{}, s.storeAuthor(r.Context(), a)
}

// verify takes the token of a mail: it is valid once.
func (s *site) verify(r *http.Request, _ caller) (any, error) {
	body, err := read[struct{ Token string }](r)
	if err != nil {
		return nil, err
	}
	taken, err := s.records.TakeVerification(r.Context(), records.EmailVerification, body.Token)
	if err != nil {
		return nil, err
	}
	var data struct{ Email string }
	if err := json.Unmarshal(taken.Data, &data); err != nil {
		return nil, err
	}
	a, err := s.forum.verified(entities.ID(taken.UserID), data.Email)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.storeAuthor(r.Context(), a)
}

// login makes a session.
func (s *site) login(r *http.Request, _ caller) (any, error) {
	body, err := read[struct{ Name, Password string }](r)
	if err != nil {
		return nil, err
	}
	a, err := s.forum.login(strings.TrimSpace(body.Name), body.Password)
	if err != nil {
		return nil, err
	}
	device, err := json.Marshal(map[string]string{"browser": r.UserAgent()})
	if err != nil {
		return nil, err
	}
	return s.records.CreateSession(r.Context(), string(a.ID), records.NewSession{Username: a.Name, Device: device})
}

// logout revokes a session of the caller's, this one or that of another device. Polls with it end.
func (s *site) logout(r *http.Request, who caller) (any, error) {
	id := r.PathValue("id")
	if id == "this" {
		id = who.session
	}
	return struct{}{}, s.records.RevokeSession(r.Context(), string(who.id), id)
}

func (s *site) logoutEverywhere(r *http.Request, who caller) (any, error) {
	return struct{}{}, s.records.RevokeSessions(r.Context(), string(who.id))
}

// showMe shows the caller, with its sessions.
func (s *site) showMe(r *http.Request, who caller) (any, error) {
	sessions, err := s.records.Sessions(r.Context(), string(who.id))
	if err != nil {
		return nil, err
	}
	a, err := s.forum.author(who.id)
	if err != nil {
		return nil, err
	}
	return map[string]any{"author": a, "sessions": sessions, "session": who.session}, nil
}

// storeAuthor writes a changed author through to the cache.
func (s *site) storeAuthor(ctx context.Context, a entities.Author) error {
	return s.store(ctx, "author", a.ID, a)
}
