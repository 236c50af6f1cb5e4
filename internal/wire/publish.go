package wire

import (
	"strconv"

	"github.com/tidemark-dev/tidemark/client"
)

// AppendPublishedJSON appends the JSON of p. Channel and ID must be names, which need no escapes.
func AppendPublishedJSON(dst []byte, p *client.Published) []byte {
	dst = append(dst, `{"channel":"`...)
	dst = append(dst, p.Channel...)
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
