package frames

// The first byte of a field of a header block has its form, and an index that may continue in the next bytes; that of a
// string has its length: RFC 7541, section 6.
const (
	indexed     = 0x80 // a whole field by its index
	incremental = 0x40 // a value, and a name by its index or a new one
	tableSize   = 0x20 // a change of the table's size
)

// countFields returns the number of fields of a header block in HPACK, and of changes of the table's size, without
// decoding them. A byte can refer to a field of kilobytes, so the size of a block doesn't tell how long it takes to
// decode.
func countFields(block []byte) (number int) {
	for len(block) > 0 {
		first, index := block[0], 0
		switch number++; {
		case first&indexed != 0:
			_, block = readInteger(block, 0x7f)
			continue
		case first&incremental != 0:
			index, block = readInteger(block, 0x3f)
		case first&tableSize != 0:
			_, block = readInteger(block, 0x1f)
			continue
		default:
			index, block = readInteger(block, 0x0f)
		}
		if index == 0 { // the name follows
			block = skipString(block)
		}
		block = skipString(block)
	}
	return number
}

// skipString returns what follows a string.
func skipString(block []byte) []byte {
	if len(block) == 0 {
		return nil
	}
	length, rest := readInteger(block, 0x7f)
	return rest[min(length, len(rest)):]
}

// readInteger reads an integer that begins in the bits of mask in the first byte, and returns what follows. Integers
// beyond maxBlock aren't exact: net/http and grpc-go refuse strings that are longer than all headers may be.
func readInteger(block []byte, mask byte) (value int, rest []byte) {
	value, rest = int(block[0]&mask), block[1:]
	if value < int(mask) {
		return value, rest
	}
	const more, maxShift = 0x80, 2 * 7 // another byte follows
	for shift := 0; len(rest) > 0; shift = min(shift+7, maxShift) {
		b := rest[0]
		value, rest = min(value+int(b&^more)<<shift, 2*maxBlock), rest[1:]
		if b&more == 0 {
			break
		}
	}
	return value, rest
}
