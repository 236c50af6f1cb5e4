package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
)

// Publish runs publish.lua. Where a try may have published the messages although it failed, the duplicates that the next
// one finds are looked at once more.
func (s *Store) Publish(ctx context.Context, r channel.PublishRequest) ([]channel.Published, error) {
	keys, args := s.publishCall(r)
	var rep reply
	begun, doubtful := time.Now(), false
	err := s.retry(ctx, publishScript.Name(), func(ctx context.Context) (err error) {
		if r.Policy.Replicas > 0 {
			rep, err = s.tryReplicated(ctx, keys, args, r.Policy.Replicas)
		} else {
			rep, err = s.try(ctx, publishScript, keys, args)
		}
		doubtful = doubtful || err != nil && (code(err) == codeNetwork || rep.status == statusOK)
		return err
	})
	if err != nil {
		return nil, err
	}
	published, err := rep.published(r.Drafts)
	if err == nil && doubtful {
		s.recognizeOwn(ctx, r, published, begun)
	}
	return published, err
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

func ttlMillis(p channel.Policy) string { return strconv.FormatInt(p.TTL.Milliseconds(), 10) }
