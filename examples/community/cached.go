package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/client/records"
	entities "github.com/tidemark-dev/tidemark/internal/records"
)

// load returns a value of the cache, or what read returns, which it stores there.
func load[T any](ctx context.Context, c *records.Client, kind, id string, read func() (T, error)) (value T, err error) {
	text, err := c.Cached(ctx, kind, id)
	if err == nil {
		return value, json.Unmarshal(text, &value)
	}
	if !errors.Is(err, records.ErrNotCached) {
		return value, err
	}
	if value, err = read(); err != nil {
		return value, err
	}
	if text, err = json.Marshal(value); err != nil {
		return value, fmt.Errorf("encode the %s %s: %w", kind, id, err)
	}
	return value, c.PutCached(ctx, kind, id, text, records.PutOptions{})
}

// store writes a changed value through to the cache.
func (s *site) store(ctx context.Context, kind string, id entities.ID, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the %s %s: %w", kind, id, err)
	}
	return s.records.PutCached(ctx, kind, string(id), text, records.PutOptions{})
}

// authorOf returns an author, without what only the author may see.
func (s *site) authorOf(ctx context.Context, id entities.ID) (entities.Author, error) {
	a, err := load(ctx, s.records, "author", string(id), func() (entities.Author, error) { return s.forum.author(id) })
	a.Email = ""
	return a, err
}

func (s *site) topicOf(ctx context.Context, id entities.ID) (entities.Topic, error) {
	return load(ctx, s.records, "topic", string(id), func() (entities.Topic, error) { return s.forum.topic(id) })
}

func (s *site) showTopics(r *http.Request, _ caller) (any, error) {
	var all []entities.Topic
	for i := range s.forum.data.Topics { // there are always as many
		t, err := s.topicOf(r.Context(), idOf(i))
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func (s *site) showTopic(r *http.Request, _ caller) (any, error) {
	t, err := s.topicOf(r.Context(), idIn(r))
	if err != nil {
		return nil, err
	}
	posts, err := load(r.Context(), s.records, "topic-shouts", string(t.ID),
		func() ([]post, error) { return s.forum.postsOf(t.ID), nil })
	return map[string]any{"topic": t, "posts": posts}, err
}

func (s *site) showAuthor(r *http.Request, _ caller) (any, error) {
	return s.authorOf(r.Context(), idIn(r))
}

// showPost shows a post and counts the view.
func (s *site) showPost(r *http.Request, _ caller) (any, error) {
	p, err := s.forum.post(idIn(r))
	if err != nil {
		return nil, err
	}
	a, err := s.authorOf(r.Context(), p.Author)
	if err != nil {
		return nil, err
	}
	return map[string]any{"post": p, "author": a}, s.records.CountViews(r.Context(), map[string]int64{string(p.ID): 1})
}

// showViews shows how often a post was viewed. Tidemark writes views once a second.
func (s *site) showViews(r *http.Request, _ caller) (any, error) {
	views, err := s.records.Views(r.Context(), []string{string(idIn(r))}, nil)
	if err != nil {
		return nil, err
	}
	return views[0], nil
}

// search finds posts. The same search in other words, such as in upper case, is the same in the cache.
func (s *site) search(r *http.Request, _ caller) (any, error) {
	text := r.URL.Query().Get("q")
	id, err := entities.SearchID(text, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInput, err)
	}
	return load(r.Context(), s.records, "search", id, func() (entities.Results, error) {
		found := entities.Results{Query: text, Results: []entities.Result{}, CachedAt: time.Now().Unix()}
		for _, p := range s.forum.search(text) {
			found.Results = append(found.Results, entities.Result{Type: "shout", ID: p.ID, Title: p.Title, Slug: p.Slug,
				Score: 1})
		}
		found.Total = int64(len(found.Results))
		return found, nil
	})
}
