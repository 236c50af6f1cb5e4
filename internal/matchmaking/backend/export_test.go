package backend

import "context"

// Lead asks for the lease of a queue.
func (s *Synchronizer) Lead(ctx context.Context, queue string) error { return s.lead(ctx, queue) }

// Room returns the bytes that the server's calls use of its room.
func (s *Synchronizer) Room() int {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return s.room.used
}

// Waiting returns the number of calls that wait for this server's next cycle of a queue.
func (s *Synchronizer) Waiting(queue string) int {
	l := s.held(queue)
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}
