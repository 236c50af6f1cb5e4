package backend

// Room returns the bytes that the server's calls use of its room.
func (s *Synchronizer) Room() int {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return s.room.used
}

// Waiting returns the number of calls that wait for this server's next cycle of a queue.
func (s *Synchronizer) Waiting(queue string) int {
	s.mu.Lock()
	l := s.loops[queue]
	s.mu.Unlock()
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// Loops returns the number of queues that the server runs cycles for.
func (s *Synchronizer) Loops() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.loops)
}
