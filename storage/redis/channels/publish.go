package channels

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var publishScript = lua.Must("channels/publish")

// Publish runs publish.lua. If an attempt may have published the messages although it failed, recognizeOwn looks at the
// duplicates that the next one finds.
func (s *Store) Publish(ctx context.Context, r channel.PublishRequest) ([]channel.Published, error) {
	keys, args := s.publishCall(r)
	var rep redis.Reply
	begun, doubtful := time.Now(), false
	err := s.conn.Retry(ctx, publishScript.Name(), func(ctx context.Context) (err error) {
		if r.Policy.Replicas > 0 {
			rep, err = s.tryReplicated(ctx, r, keys, args)
		} else {
			rep, err = s.conn.Try(ctx, publishScript, keys, args)
		}
		doubtful = doubtful || err != nil && (redis.ReplyLost(err) || isPublished(rep))
		return err
	})
	if err != nil {
		return nil, err
	}
	published, err := decodePublished(rep, r.Drafts)
	if err == nil && doubtful {
		s.recognizeOwn(ctx, r, published, begun)
	}
	return published, err
}

// maxReplicated is how many replicated publishes of one PublishEach wait for their replicas at the same time.
const maxReplicated = 16

// PublishEach publishes all requests in one round trip. Those that must be on replicas before they count are published
// one by one, since each waits for its replicas on its own connection.
func (s *Store) PublishEach(ctx context.Context, requests []channel.PublishRequest) []channel.PublishResult {
	results, together := make([]channel.PublishResult, len(requests)), make([]int, 0, len(requests))
	var replicated errgroup.Group
	replicated.SetLimit(maxReplicated)
	for i, r := range requests {
		if r.Policy.Replicas == 0 {
			together = append(together, i)
			continue
		}
		replicated.Go(func() error {
			results[i].Published, results[i].Err = s.Publish(ctx, r)
			return nil
		})
	}
	s.publishTogether(ctx, requests, together, results)
	_ = replicated.Wait() // always nil: each has its error in results
	return results
}

// publishTogether runs publish.lua for some of the requests.
func (s *Store) publishTogether(ctx context.Context, requests []channel.PublishRequest, which []int,
	results []channel.PublishResult) {
	calls := make([]redis.Call, len(which))
	for n, i := range which {
		calls[n].Keys, calls[n].Args = s.publishCall(requests[i])
	}
	for n, answer := range s.conn.RunMany(ctx, publishScript, calls) {
		i := which[n]
		if results[i].Err = answer.Err; answer.Err == nil {
			results[i].Published, results[i].Err = decodePublished(answer.Reply, requests[i].Drafts)
		}
	}
}

// isPublished reports whether publish.lua has published the messages, or found them.
func isPublished(r redis.Reply) bool { return r.Status == redis.OK || r.Status == statusCreated }

// decodePublished decodes the reply of publish.lua.
func decodePublished(r redis.Reply, drafts []channel.Draft) ([]channel.Published, error) {
	if !isPublished(r) {
		return nil, refusals.Error(r)
	}
	d := r.Decoder()
	published := make([]channel.Published, len(drafts))
	for i, draft := range drafts {
		published[i] = channel.Published{
			ID: draft.ID, Clock: clockOf(d), Duplicate: d.Int64() != 0, Begun: i == 0 && r.Status == statusCreated,
		}
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	return published, nil
}

func (s *Store) publishCall(r channel.PublishRequest) (keys, args []string) {
	ch := s.keys(r.Channel)
	keys = append(make([]string, 0, 3+len(r.Drafts)), ch.Clock(), ch.Epoch(), ch.Subscribers())
	newEpoch, lastEpoch, plain := "", "", ""
	switch {
	case !r.Epoch.IsZero():
		newEpoch, lastEpoch = r.Epoch.String(), r.Epoch.String()
	case !r.Existing:
		newEpoch = id.New()
	}
	if r.Policy.Plain {
		plain = r.Channel // services that subscribe to Redis directly use no key prefix
	}
	args = append(make([]string, 0, 10+len(r.Drafts)),
		ch.MessagePrefix(), ch.MarkPrefix(), r.Subscriber, ttlMillis(r.Policy), newEpoch, lastEpoch,
		strconv.Itoa(r.Policy.MaxMessages), ch.Topic(), strconv.Itoa(s.notifyBytes), plain)
	for _, draft := range r.Drafts {
		keys = append(keys, ch.MessageID(draft.ID))
		args = append(args, head(draft))
	}
	return keys, args
}

func ttlMillis(p channel.Policy) string { return redis.Milliseconds(p.TTL) }

// tryReplicated publishes once and returns when as many replicas as the policy requires have confirmed it. A repeat
// finds the dedup records and waits again. It can return the script's reply together with an error.
func (s *Store) tryReplicated(ctx context.Context, publish channel.PublishRequest, keys, args []string) (redis.Reply,
	error) {
	var r redis.Reply
	err := s.conn.Session(ctx, keys[0], func(own *redis.Session) (err error) {
		if r, err = own.Run(ctx, publishScript, keys, args); err != nil || !isPublished(r) {
			return err
		}
		last := s.keys(publish.Channel).MessageID(publish.Drafts[len(publish.Drafts)-1].ID)
		return own.Confirm(ctx, publish.Policy.Replicas, touch(own.B(), last, r)...)
	})
	return r, err
}

// touch returns a command that rewrites the last message's dedup record unchanged. If all messages were duplicates, the
// session has written nothing, and WAIT would return at once.
func touch(b rueidis.Builder, record string, r redis.Reply) []rueidis.Completed {
	last := ""
	for d := r.Decoder(); d.More(); d.Int64() {
		last = d.Text()
	}
	if last == "" {
		return nil
	}
	return []rueidis.Completed{b.Set().Key(record).Value(last).Xx().Keepttl().Build()}
}
