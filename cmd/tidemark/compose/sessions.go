package compose

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/records/sessions"
	store "github.com/tidemark-dev/tidemark/storage/redis/records/sessions"
)

func openSessions(n Needs) (*sessions.Service, error) {
	s, err := sessions.NewService(sessions.Options{Store: store.New(n.Redis.Sessions), TTL: n.Config.Sessions.TTL, Legacy: n.Config.Sessions.Legacy})
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	return s, nil
}
