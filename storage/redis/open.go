package redis

import (
	"context"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
)

// Open runs open.lua.
func (s *Store) Open(ctx context.Context, r channel.OpenRequest) (channel.Life, error) {
	ch := s.channel(r.Channel)
	keys := append(ch.forSubscriber(r.Subscriber), ch.label())
	args := []string{r.Subscriber, r.Label, r.Epoch.String(), epochText(r.Replaces), ch.markPrefix(), ttlMillis(r.Policy)}
	rep, err := s.exec(ctx, openScript, keys, args)
	if err != nil {
		return channel.Life{}, err
	}
	return rep.life()
}

// epochText returns an epoch as scripts get it: empty for none.
func epochText(epoch ulid.ULID) string {
	if epoch.IsZero() {
		return ""
	}
	return epoch.String()
}

// life decodes what open.lua returns.
func (r reply) life() (channel.Life, error) {
	if r.status != statusOK {
		return channel.Life{}, r.refusal()
	}
	d := r.decoder()
	life := channel.Life{Epoch: d.epoch(), Label: d.text()}
	return life, d.end()
}

// Life reads a channel's epoch and label with one command.
func (s *Store) Life(ctx context.Context, name string) (life channel.Life, err error) {
	ch := s.channel(name)
	err = s.retry(ctx, "life", func(ctx context.Context) error {
		found, err := s.client.Do(ctx, s.client.B().Mget().Key(ch.epoch(), ch.label()).Build()).ToArray()
		if err != nil {
			return err
		}
		if found[0].IsNil() || found[1].IsNil() {
			return channel.ErrNoChannel
		}
		d := decoder{script: "life", values: found}
		life = channel.Life{Epoch: d.epoch(), Label: d.text()}
		return d.end()
	})
	return life, err
}
