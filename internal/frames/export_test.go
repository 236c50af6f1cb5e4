package frames

// The limits of a connection.
const (
	Rate     = rate
	MinBurst = minBurst
	Patience = patience
)

// PriceOf returns the price of the frames whose headers end in data, which was read.
func (c *Conn) PriceOf(data []byte) int { return c.priceOf(data) }

// CountFields returns the number of fields of a block.
func CountFields(block []byte) int { return countFields(block) }
