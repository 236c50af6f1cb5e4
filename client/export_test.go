package client

// NewEventReader is newEventReader.
var NewEventReader = newEventReader

// Next is next.
func (r *eventReader) Next() (id, name, data string, err error) {
	e, err := r.next()
	return e.id, e.name, string(e.data), err
}

// ErrLargeEvent is errLargeEvent, for lines and data of more than MaxEventBytes.
var ErrLargeEvent = errLargeEvent

// MaxEventBytes is maxEventBytes.
const MaxEventBytes = maxEventBytes

// ReadAhead is readAhead.
const ReadAhead = readAhead
