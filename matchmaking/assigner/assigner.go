package assigner

import (
	"cmp"
	"fmt"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/callout/jsonhttp"
)

// answerBytes is how large the answer to an allocation may be.
const answerBytes = 64 << 10

// New makes the assigner that a queue's definition asks for. It is safe for concurrent use. Its errors say what is
// wrong with the definition and start with the key, such as "assigner.url". It calls targets only; nil: any.
func New(d matchmaking.Definition, targets *jsonhttp.Targets) (matchmaking.Assigner, error) {
	switch d.Assigner.Kind {
	case matchmaking.AssignStatic:
		return newStatic(d)
	case matchmaking.AssignWebhook:
		return newWebhook(d, targets)
	case matchmaking.AssignAgones:
		return newAgones(d, targets)
	}
	return nil, fmt.Errorf("assigner.kind: %q is none of static, webhook and agones", d.Assigner.Kind)
}

// newClient makes the client of an assigner that calls a service.
func newClient(d matchmaking.Definition, targets *jsonhttp.Targets) (*jsonhttp.Client, error) {
	if err := cmp.Or(jsonhttp.CheckURL(d.Assigner.URL), targets.Check(d.Assigner.URL)); err != nil {
		return nil, fmt.Errorf("assigner.url: %w", err)
	}
	timeout := d.Assigner.Timeout.Std()
	if timeout <= 0 {
		timeout = matchmaking.DefaultCallTimeout
	}
	return jsonhttp.New(targets, timeout, answerBytes), nil
}
