package channel

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
)

// Offset is a position between two messages of a channel, for readers without a subscriber. Its text sorts, byte by byte,
// as positions do, for the life of the channel and across the wrap of its clock.
type Offset struct {
	Position               // after the message at its clock; Closed has no meaning
	Write    receipt.Write // the one that stored that message; zero: it isn't known, or there is none
}

// An offset's text is "<epoch>_<turn><place>_<write>": the epoch is a ULID; the turn is 0, or 1 once the clock has
// wrapped in this life; the place of the clock among all has placeDigits. The write is left out if it is zero.
const (
	placeDigits = 17
	epochChars  = ulid.EncodedSize
	offsetChars = epochChars + 1 + 1 + placeDigits
)

// Text returns the text of an offset. first is Life.First.
func (o Offset) Text(first clock.Clock) string {
	turn := 0
	if o.Clock < first {
		turn = 1
	}
	text := fmt.Sprintf("%s_%d%0*d", o.Epoch, turn, placeDigits, uint64(o.Clock-clock.Min))
	if o.Write.IsZero() {
		return text
	}
	return text + "_" + o.Write.String()
}

// ParseOffset parses the text of an offset. The error has fault.SlugInvalidPosition.
func ParseOffset(text string) (Offset, error) {
	var o Offset
	refused := invalid(fault.SlugInvalidPosition, "offset", "the offset isn't one of an answer of this service")
	if len(text) < offsetChars || text[epochChars] != '_' {
		return o, refused
	}
	var err error
	if o.Epoch, err = ulid.ParseStrict(text[:epochChars]); err != nil || o.Epoch.String() != text[:epochChars] {
		return o, refused // also of lower case, which would sort elsewhere
	}
	turn, digits := text[epochChars+1], text[epochChars+2:offsetChars]
	place, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || turn != '0' && turn != '1' || place > uint64(clock.Max-clock.Min) {
		return o, refused
	}
	o.Clock = clock.Min + clock.Clock(place)
	rest := text[offsetChars:]
	if rest == "" {
		return o, nil
	}
	write, found := strings.CutPrefix(rest, "_")
	if o.Write, err = receipt.ParseWrite(write); !found || err != nil || o.Write.IsZero() {
		return o, refused
	}
	return o, nil
}

// receipt returns the offset as where a reading begins.
func (o *Offset) receipt(channel string) *receipt.Receipt {
	return &receipt.Receipt{Channel: channel, Epoch: o.Epoch, Clock: o.Clock, Write: o.Write}
}
