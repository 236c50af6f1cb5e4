package queues

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/storage/redis"
)

// readEntry decodes an entry: its ID and its fields.
func readEntry(d *redis.Decoder) (id string, fields map[string]string) {
	fields = map[string]string{}
	list := d.List()
	id = list.Text()
	list.Each(func(list *redis.Decoder) {
		name := list.Text()
		fields[name] = list.Text()
	})
	d.Fail(list.End())
	return id, fields
}

// timeOfEntry returns the time at which the entry with an ID was added, to the millisecond.
func timeOfEntry(id string) (time.Time, error) {
	text, _, _ := strings.Cut(id, "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("entry %q: %w", id, err)
	}
	return time.UnixMilli(ms).UTC(), nil
}

// entryID is the parsed ID of an entry, "<ms>-<number>".
type entryID struct{ Ms, Number uint64 }

// entryIDOf parses the ID of the entry of a position, "<entry>/<ticket's ID>", or of an entry. Invalid numbers are
// zero.
func entryIDOf(point string) (id entryID) {
	entry, _, _ := strings.Cut(point, "/")
	ms, number, _ := strings.Cut(entry, "-")
	id.Ms, _ = strconv.ParseUint(ms, 10, 64)
	id.Number, _ = strconv.ParseUint(number, 10, 64)
	return id
}
