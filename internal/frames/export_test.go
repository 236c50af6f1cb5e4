package frames

import "slices"

// The limits of a connection.
const (
	Rate     = rate
	MinBurst = minBurst
	Patience = patience
)

// PriceOf returns the price of the frames whose headers end in data, which was read.
func (c *Conn) PriceOf(data []byte) int { return c.priceOf(data) }

// CountFields returns the number of fields of a block after some other bytes, which is read in pieces.
func CountFields(data []byte, others, piece int) int {
	f := after(others)
	for part := range slices.Chunk(data, piece) {
		f.read(part)
	}
	return f.number
}
