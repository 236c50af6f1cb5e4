package assigner

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
)

// responseBytes is the largest response to an allocation.
const responseBytes = 64 << 10

// New returns the assigner of a queue's definition. It calls targets only, or any service if targets is nil. Errors:
// fault.SlugInvalidQueue, with the key that is invalid, such as "assigner.url".
func New(d matchmaking.Definition, targets *jsonhttp.Targets) (matchmaking.Assigner, error) {
	switch d.Assigner.Kind {
	case matchmaking.AssignStatic:
		return newStatic(d)
	case matchmaking.AssignWebhook:
		return newWebhook(d, targets)
	case matchmaking.AssignAgones:
		return newAgones(d, targets)
	}
	return nil, matchmaking.InvalidKey("assigner.kind", fmt.Errorf("%q is not static, webhook or agones",
		d.Assigner.Kind))
}

// newClient returns the client of an assigner that calls a service.
func newClient(d matchmaking.Definition, targets *jsonhttp.Targets) (*jsonhttp.Client, error) {
	if err := targets.Check(d.Assigner.URL); err != nil {
		return nil, matchmaking.InvalidKey("assigner.url", err)
	}
	return jsonhttp.New(targets, d.Assigner.Timeout.Std(), responseBytes), nil
}
