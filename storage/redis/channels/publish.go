package channels

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var publishScript = lua.Must("channels/publish")

// Publish runs publish.lua, together with concurrent publishes to the channel: see group_commit.go. If that fails in a
// way that may pass, the publish is tried again alone, as other writes. If an attempt may have published the messages
// although it failed, recognizeOwn looks at the duplicates that the next one finds.
func (s *Store) Publish(ctx context.Context, r channel.PublishRequest) ([]channel.Published, error) {
	messages := messagesOf(&r)
	var first func(context.Context) (reply, error)
	if sharable(&r) {
		first = func(ctx context.Context) (reply, error) {
			return s.groupCommit.Do(ctx, termsOf(&r), messages[0])
		}
	}
	return s.publish(ctx, &r, messages, first)
}

// BeginPublish begins a publish that shares a call, and calls done with its result.
func (s *Store) BeginPublish(ctx context.Context, r channel.PublishRequest,
	done func([]channel.Published, error)) bool {
	if !sharable(&r) || tracing.Recorded(ctx) {
		return false
	}
	p := &begun{store: s, ctx: ctx, r: r, messages: messagesOf(&r), done: done,
		until: time.Now().Add(s.conn.Timeout())}
	p.r.Drafts = []channel.Draft{{ID: r.Drafts[0].ID, ContentType: r.Drafts[0].ContentType, Trace: r.Drafts[0].Trace}}
	return s.groupCommit.Begin(termsOf(&r), p.messages[0], p.end) == nil
}

// begun is a publish of BeginPublish that shares a call.
type begun struct {
	store    *Store
	ctx      context.Context //nolint:containedctx // of the publish
	r        channel.PublishRequest
	messages []message
	done     func([]channel.Published, error)
	until    time.Time
}

// end ends the publish after the shared call.
func (p *begun) end(rep reply, err error) {
	if err == nil && isPublished(rep.Reply) {
		p.done(decodePublished(rep, p.r.Drafts, p.r.Producer))
		return
	}
	go p.again(rep, err)
}

// again goes on after a first attempt that failed.
func (p *begun) again(rep reply, err error) {
	ctx, cancel := context.WithDeadline(p.ctx, p.until)
	defer cancel()
	defer func() {
		if panicked := recover(); panicked != nil { // it has no caller that could recover
			p.done(nil, fmt.Errorf("publish again: %v\n%s", panicked, debug.Stack()))
		}
	}()
	p.r.Drafts[0].Content = p.messages[0].content()
	p.done(p.store.publish(ctx, &p.r, p.messages, func(context.Context) (reply, error) { return rep, err }))
}

// tryPublish makes one attempt.
func (s *Store) tryPublish(ctx context.Context, r *channel.PublishRequest, messages []message) (rep reply, err error) {
	o := optionsOf(r)
	rep.of = len(messages)
	if r.Policy.Replicas > 0 {
		rep.Reply, err = s.tryReplicated(ctx, r, messages, &o)
		return rep, err
	}
	keys, args := s.publishCall(r, messages, len(messages) == 1, &o)
	rep.Reply, err = s.conn.Try(ctx, publishScript, keys, args)
	return rep, err
}

// publish publishes messages by attempts, the first of which is another one if first isn't nil.
func (s *Store) publish(ctx context.Context, r *channel.PublishRequest, messages []message,
	first func(context.Context) (reply, error)) ([]channel.Published, error) {
	var rep reply
	var attempts [][]message // whose writes may have been made although they failed
	until, again := time.Now().Add(s.conn.Timeout()), false
	err := s.conn.Retry(ctx, publishScript.Name(), func(ctx context.Context) (err error) {
		switch {
		case first != nil:
			rep, err = first(ctx)
			first = nil
		default:
			if again {
				messages = messagesOf(r) // each attempt is other writes
			}
			rep, err = s.tryPublish(ctx, r, messages)
		}
		again = true
		if err != nil && (redis.ReplyLost(err) || isPublished(rep.Reply)) {
			attempts = append(attempts, messages)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	published, err := decodePublished(rep, r.Drafts, r.Producer)
	if err == nil && len(attempts) > 0 {
		ctx, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		s.recognizeOwn(ctx, r.Channel, published, attempts)
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

// publishTogether runs publish.lua for some of the requests. Each attempt is other writes.
func (s *Store) publishTogether(ctx context.Context, requests []channel.PublishRequest, which []int,
	results []channel.PublishResult) {
	answers := make([]redis.Reply, len(requests))
	errs := s.conn.RetryEach(ctx, publishScript.Name(), len(which), func(ctx context.Context, some []int) []error {
		calls, errs := make([]redis.Call, len(some)), make([]error, len(some))
		for n, at := range some {
			r := &requests[which[at]]
			o := optionsOf(r)
			calls[n].Keys, calls[n].Args = s.publishCall(r, messagesOf(r), len(r.Drafts) == 1, &o)
		}
		for n, answer := range s.conn.TryEach(ctx, publishScript, calls) {
			answers[which[some[n]]], errs[n] = answer.Reply, answer.Err
		}
		return errs
	})
	for n, i := range which {
		if results[i].Err = errs[n]; errs[n] == nil {
			r := &requests[i]
			results[i].Published, results[i].Err = decodePublished(reply{Reply: answers[i], of: len(r.Drafts)}, r.Drafts,
				r.Producer)
		}
	}
}

// isPublished reports whether publish.lua has published the messages, or found them.
func isPublished(r redis.Reply) bool { return r.Status == redis.OK || r.Status == statusCreated }

// reply is the reply of publish.lua to a call, of which a publish has the results from an index on.
type reply struct {
	redis.Reply
	index, of int // of the results
}

// decodePublished decodes the results of a publish, whose producer may be nil.
func decodePublished(r reply, drafts []channel.Draft, by *channel.Producer) ([]channel.Published, error) {
	if !isPublished(r.Reply) {
		return nil, refusals.Error(r.Reply)
	}
	d := r.Decoder()
	life := lifeOf(d)
	if d.Len() != 2*r.of {
		d.Fail(fmt.Errorf("%d values of %d results", d.Len(), r.of))
	}
	d.Take(2 * r.index)
	published := make([]channel.Published, len(drafts))
	for i, draft := range drafts {
		p := channel.Published{ID: draft.ID, Epoch: life.Epoch, First: life.First,
			Begun: r.index+i == 0 && r.Status == statusCreated}
		at, result := d.Text(), d.Text()
		if d.Err() != nil {
			break
		}
		at, sequence, repeated := strings.Cut(at, " ")
		var err error
		if p.Clock, err = clock.Parse(at); err != nil {
			d.Fail(err)
			break
		}
		switch result {
		case "0":
		case "1", "2":
			p.Duplicate, p.Differs = true, result == "2"
		default:
			return nil, refused(&life, int64(p.Clock), result)
		}
		if by != nil {
			p.Sequence = by.Sequence
		}
		if repeated {
			p.Sequence, err = strconv.ParseInt(sequence, 10, 64)
			d.Fail(err)
		}
		published[i] = p
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	return published, nil
}

// message is a message as publish.lua gets it.
type message struct {
	id, head string
	write    receipt.Write
	trace    string      // of its draft
	producer producerArg // of its publish
}

// content returns a copy of the content of the message's draft. IDs have no quotes.
func (m message) content() []byte {
	_, content, _ := strings.Cut(m.head, beforeContent)
	return []byte(content)
}

// messagesOf returns the messages of a request for one attempt to publish them. They share no memory with the drafts'
// contents.
func messagesOf(r *channel.PublishRequest) []message {
	messages := make([]message, len(r.Drafts))
	for i, draft := range r.Drafts {
		write := receipt.NewWrite()
		messages[i] = message{id: draft.ID, head: head(draft, write), write: write, trace: draft.Trace,
			producer: producerOf(r.Producer)}
	}
	return messages
}

// producersOf returns the producers of separate messages.
func producersOf(messages []message) []producerArg {
	producers := make([]producerArg, len(messages))
	for i := range messages {
		producers[i] = messages[i].producer
	}
	return producers
}

// publishCall returns the keys and the arguments of publish.lua for a request, except its drafts, and messages. With
// separate, each message is a publish of its own.
func (s *Store) publishCall(r *channel.PublishRequest, messages []message, separate bool, o *options) (
	keys, args []string) {
	names := 0
	for _, m := range messages {
		names += len(m.id)
	}
	ch := s.keys(r.Channel).together(6+len(messages), names)
	keys = append(make([]string, 0, 3+len(messages)), ch.Clock(), ch.Epoch(), ch.Subscribers())
	newEpoch, lastEpoch, plain, each := "", "", "", "0"
	switch {
	case o.Create != nil && !r.Existing:
		newEpoch = r.Epoch.String() // the same in each attempt
	case !r.Epoch.IsZero():
		newEpoch, lastEpoch = r.Epoch.String(), r.Epoch.String()
	case !r.Existing:
		newEpoch = id.New()
	}
	if r.Policy.Plain {
		plain = r.Channel // services that subscribe to Redis directly use no key prefix
	}
	if separate {
		each = "1"
	}
	args = append(make([]string, 0, 13+len(messages)),
		ch.MessagePrefix(), ch.MarkPrefix(), r.Subscriber, ttlMillis(r.Policy), newEpoch, lastEpoch,
		strconv.Itoa(r.Policy.MaxMessages), ch.Topic(), strconv.Itoa(s.notifyBytes), plain, each, ch.Deleted(), o.text())
	for _, m := range messages {
		keys = append(keys, ch.MessageID(m.id))
		args = append(args, m.head)
	}
	return keys, args
}

func ttlMillis(p channel.Policy) string { return redis.Milliseconds(p.TTL) }

// tryReplicated publishes once and returns when as many replicas as the policy requires have confirmed it. A repeat
// finds the dedup records and waits again. It can return the script's reply together with an error.
func (s *Store) tryReplicated(ctx context.Context, publish *channel.PublishRequest, messages []message,
	o *options) (redis.Reply, error) {
	var r redis.Reply
	keys, args := s.publishCall(publish, messages, len(messages) == 1, o)
	err := s.conn.Session(ctx, keys[0], func(own *redis.Session) (err error) {
		if r, err = own.Run(ctx, publishScript, keys, args); err != nil || !isPublished(r) && r.Status != statusExists {
			return err
		}
		var again []rueidis.Completed
		if len(messages) > 0 {
			again = touch(own.B(), s.keys(publish.Channel).MessageID(messages[len(messages)-1].id), r)
		}
		return own.Confirm(ctx, publish.Policy.Replicas, again...)
	})
	return r, err
}

// touch returns a command that rewrites the last message's dedup record unchanged. If all messages were duplicates, the
// session has written nothing, and WAIT would return at once.
func touch(b rueidis.Builder, record string, r redis.Reply) []rueidis.Completed {
	d := r.Decoder()
	life, last, result := lifeOf(d), "", ""
	for d.More() {
		last, result = d.Text(), d.Text()
	}
	at, _, _ := strings.Cut(last, " ")
	if life.TTL > 0 {
		at += " " + life.Epoch.String()
	}
	if d.Err() != nil || refusalsOfPublish[result] != nil {
		return nil
	}
	return []rueidis.Completed{b.Set().Key(record).Value(at).Xx().Keepttl().Build()}
}
