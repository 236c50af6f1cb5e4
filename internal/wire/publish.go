package wire

import (
	"strconv"

	"github.com/tidemark-dev/tidemark/channel"
)

// AppendPublishedJSON appends the JSON of p, a client.Published. The names of the channel and of p need no escapes.
func AppendPublishedJSON(dst []byte, name string, p *channel.Published) []byte {
	dst = append(dst, `{"channel":"`...)
	dst = append(dst, name...)
	dst = append(dst, `","id":"`...)
	dst = append(dst, p.ID...)
	dst = append(dst, `","clock":`...)
	dst = strconv.AppendInt(dst, int64(p.Clock), 10)
	dst = append(dst, `,"duplicate":`...)
	dst = strconv.AppendBool(dst, p.Duplicate)
	if p.Differs {
		dst = append(dst, `,"differs":true`...)
	}
	return append(dst, '}')
}
