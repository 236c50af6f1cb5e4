package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	entities "github.com/tidemark-dev/tidemark/internal/records"
)

// publish adds a post, and notifies the followers of its topic and its author.
func (s *site) publish(r *http.Request, who caller) (any, error) {
	body, err := read[struct{ Title, Body string }](r)
	if err != nil {
		return nil, err
	}
	p, err := s.forum.publish(who.id, idIn(r), body.Title, body.Body)
	if err != nil {
		return nil, err
	}
	return p, s.changed(r.Context(), p, "created")
}

// editing is the operation of the lock that an editor of a post holds.
const editing = "edit"

// lock locks a post for whoever begins to edit it, for 30 seconds, and renews the lock.
func (s *site) lock(r *http.Request, who caller) (any, error) {
	body, err := read[struct{ Lock string }](r)
	if err != nil {
		return nil, err
	}
	p, err := s.forum.post(idIn(r))
	switch {
	case err != nil:
		return nil, err
	case p.Author != who.id:
		return nil, errNotYours
	case body.Lock != "":
		return s.records.RenewLock(r.Context(), editing, string(p.ID), body.Lock, 0)
	}
	return s.records.AcquireLock(r.Context(), editing, string(p.ID), records.LockOptions{})
}

// unlock ends a lock before its time.
func (s *site) unlock(r *http.Request, _ caller) (any, error) {
	body, err := read[struct{ Lock string }](r)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.records.ReleaseLock(r.Context(), editing, string(idIn(r)), body.Lock)
}

// edit replaces the text of a post that the caller has locked. A lock that was lost can't be renewed: another window
// may have changed the post meanwhile.
func (s *site) edit(r *http.Request, who caller) (any, error) {
	body, err := read[struct{ Title, Body, Lock string }](r)
	if err != nil {
		return nil, err
	}
	if _, err := s.records.RenewLock(r.Context(), editing, string(idIn(r)), body.Lock, 0); err != nil {
		return nil, err
	}
	p, err := s.forum.edit(who.id, idIn(r), body.Title, body.Body)
	if err != nil {
		return nil, err
	}
	if err := s.changed(r.Context(), p, "updated"); err != nil {
		return nil, err
	}
	return p, s.records.ReleaseLock(r.Context(), editing, string(p.ID), body.Lock)
}

// changed stores the lists that change with a post, invalidates the others, and notifies followers.
func (s *site) changed(ctx context.Context, p post, action string) error {
	a, err := s.forum.author(p.Author)
	if err != nil {
		return err
	}
	t, err := s.forum.topic(p.Topic)
	if err != nil {
		return err
	}
	if err := s.storeAuthor(ctx, a); err != nil {
		return err
	}
	if err := s.store(ctx, "topic", t.ID, t); err != nil {
		return err
	}
	if err := s.records.DeleteCached(ctx, "topic-shouts", string(t.ID)); err != nil {
		return err
	}
	if _, err := s.records.InvalidatePrefix(ctx, "search", ""); err != nil {
		return err
	}
	return s.notify(ctx, p, a, action)
}

// notify publishes a notification to the channels of the topic and of the author.
func (s *site) notify(ctx context.Context, p post, a entities.Author, action string) error {
	content, err := json.Marshal(map[string]any{
		"type": "post", "user_id": a.ID, "entity_type": "shout", "entity_id": p.ID, "action": action,
		"timestamp": time.Now().Unix(),
		"data":      map[string]string{"title": p.Title, "author": a.Name},
	})
	if err != nil {
		return err
	}
	// A follower of both receives it on both channels, with the same ID.
	draft := client.Draft{ID: fmt.Sprintf("post-%s-%s", p.ID, rand.Text()), Content: content}
	for _, channel := range []string{"notifications:topic:" + string(p.Topic), "notifications:author:" +
		string(p.Author)} {
		if _, err := s.channels.Publish(ctx, channel, draft); err != nil {
			return err
		}
	}
	return nil
}

// follow changes what the caller follows: the lists of both sides are written through to the cache, where Tidemark
// reads them.
func (s *site) follow(r *http.Request, who caller) (any, error) {
	ctx, sort, id := r.Context(), r.PathValue("sort"), idIn(r)
	changed, err := s.forum.follow(who.id, sort, id, r.Method == http.MethodPut)
	if err != nil {
		return nil, err
	}
	followers := "topic-followers"
	if sort == "authors" {
		followers = "author-followers"
	}
	if err := s.store(ctx, "author-follows-"+sort, who.id, changed.follows); err != nil {
		return nil, err
	}
	return struct{}{}, s.store(ctx, followers, id, changed.followers)
}
