package redis

import (
	"context"
	"strconv"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
)

// Publish runs publish.lua.
func (s *Store) Publish(ctx context.Context, r channel.PublishRequest) ([]channel.Published, error) {
	keys, args := s.publishCall(r)
	var rep reply
	var err error
	if r.Policy.Replicas > 0 {
		rep, err = s.publishReplicated(ctx, keys, args, r.Policy.Replicas)
	} else {
		rep, err = s.execToEnd(ctx, publishScript, keys, args)
	}
	if err != nil {
		return nil, err
	}
	return rep.published(r.Drafts)
}

// published decodes what publish.lua returns.
func (r reply) published(drafts []channel.Draft) ([]channel.Published, error) {
	if r.status != statusOK {
		return nil, r.refusal()
	}
	d := r.decoder()
	published := make([]channel.Published, len(drafts))
	for i, draft := range drafts {
		published[i] = channel.Published{ID: draft.ID, Clock: d.clock(), Duplicate: d.int64() != 0}
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return published, nil
}

func (s *Store) publishCall(r channel.PublishRequest) (keys, args []string) {
	ch := s.channel(r.Channel)
	keys = make([]string, 0, 3+len(r.Drafts))
	args = make([]string, 0, 7+len(r.Drafts))
	keys = append(keys, ch.clock(), ch.epoch(), ch.subscribers())
	epoch := ulid.Make().String()
	if !r.Epoch.IsZero() {
		epoch = "only " + r.Epoch.String()
	}
	args = append(args, ch.messagePrefix(), ch.markPrefix(), ttlMillis(r.Policy), epoch,
		strconv.Itoa(r.Policy.MaxMessages), ch.topic(), strconv.Itoa(s.notifyBytes))
	for _, draft := range r.Drafts {
		keys = append(keys, ch.messageID(draft.ID))
		args = append(args, envelopeHead(draft))
	}
	return keys, args
}

// execToEnd is exec for a script that begins a channel's life. While it removes marks of an earlier one, some at each
// call, it is called again, for as long as one operation may take.
func (s *Store) execToEnd(ctx context.Context, sc script, keys, args []string) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for {
		rep, err := s.exec(ctx, sc, keys, args)
		if err != nil || rep.status != statusAgain {
			return rep, err
		}
	}
}

func ttlMillis(p channel.Policy) string { return strconv.FormatInt(p.TTL.Milliseconds(), 10) }
