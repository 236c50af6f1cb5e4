package watch

import "github.com/tidemark-dev/tidemark/internal/agenda"

// entry is one wait. It is guarded by Watches' lock, except end after done is closed.
type entry struct {
	agenda.Slot // of the feed's agenda: the next read
	id          string
	created     int64         // of the ticket, in µs; 0: unknown before the first read
	done        chan struct{} // closed when end is final
	result      *result       // before done is closed: notifications received while created was unknown; nil: none
	prev, next  *entry        // further entries with the same ID
	fresh       bool          // it is among the feed's fresh entries
	removed     bool          // removed from the feed
}

// result is the result of a wait.
type result struct {
	created int64  // of the ticket
	content string // an assignment as JSON
	read    bool   // content comes from a read, not a notification
	err     error
}
