package channel

import (
	"context"

	"github.com/tidemark-dev/tidemark/fault"
)

// CopiesSubscriber is the subscriber that reads a channel whose policy has Copies. Clients can't use it there.
const CopiesSubscriber = "copies"

// Copies arranges for messages to be copied to other channels.
type Copies interface {
	// Announce records, before a publish, that a channel has messages to copy. It reports whether they will be copied:
	// then the channel gets the subscriber CopiesSubscriber.
	Announce(ctx context.Context, channel string) (bool, error)
}

var errCopies = &fault.Error{
	Kind: fault.Forbidden, Slug: fault.SlugReserved, Field: "subscriber", Detail: "the subscriber " + CopiesSubscriber +
		" of this channel is the service's",
}

// mustAnnounce reports whether the messages of a request may have to be copied.
func (s *Service) mustAnnounce(r *PublishRequest) bool { return r.Policy.Copies && s.copies != nil }

// announce announces the messages of a request if they must be copied. It reports whether it has created the channel.
func (s *Service) announce(ctx context.Context, r *PublishRequest) (announced bool, err error) {
	if !s.mustAnnounce(r) {
		return false, nil
	}
	if copied, err := s.copies.Announce(ctx, r.Channel); err != nil || !copied {
		return false, err
	}
	made, err := s.store.Subscribe(ctx, SubscribeRequest{
		Channel: r.Channel, Subscriber: CopiesSubscriber, Policy: r.Policy, ExistingChannel: r.Existing,
	})
	return made.Begun, err
}
