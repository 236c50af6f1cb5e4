package frames

// fields counts the fields of a header block in HPACK, RFC 7541, section 6, without decoding them. A byte can refer to
// a field of kilobytes, so the size of a block doesn't tell how long it takes to decode.
type fields struct {
	number  int  // fields that have begun, and changes of the table's size
	part    part // what the next byte is
	strings int  // strings left of the current field
	skip    int  // bytes left of the current string
	shift   int  // of the next byte of the string's length
}

type part int

const (
	fieldStart  part = iota
	indexRest        // a further byte of an index, or of a table's size
	stringStart      // the first byte of a string's length
	lengthRest       // a further byte of it
	stringContent
)

// The first byte of a field has its form, and an index that may continue in the next bytes; that of a string has its
// length.
const (
	indexed     = 0x80 // a whole field by its index
	incremental = 0x40 // a value, and a name by its index or a new one
	tableSize   = 0x20 // a change of the table's size

	continued = 0x80  // in the rest of an integer: another byte follows
	maxShift  = 3 * 7 // of the rest of a length; servers refuse such strings
)

// How many strings a field has.
const (
	valueOnly    = 1
	nameAndValue = 2
)

// after returns the fields of a block that begins after some other bytes.
func after(others int) fields {
	if others == 0 {
		return fields{}
	}
	return fields{part: stringContent, skip: others}
}

// read reads a part of the block.
func (f *fields) read(data []byte) {
	for len(data) > 0 {
		if f.part == stringContent {
			n := min(f.skip, len(data))
			data, f.skip = data[n:], f.skip-n
			if f.skip == 0 {
				f.next()
			}
			continue
		}
		f.readByte(data[0])
		data = data[1:]
	}
}

// readByte reads a byte outside the content of strings.
func (f *fields) readByte(b byte) {
	const longest = 0x7f // the length continues
	switch f.part {
	case fieldStart:
		f.number++
		f.begin(b)
	case indexRest:
		if b&continued == 0 {
			f.next()
		}
	case stringStart:
		f.strings--
		f.skip, f.shift, f.part = int(b&longest), 0, lengthRest
		if b&longest != longest {
			f.content()
		}
	case lengthRest:
		f.skip += int(b&^continued) << f.shift
		f.shift = min(f.shift+7, maxShift)
		if b&continued == 0 {
			f.content()
		}
	case stringContent: // read skips it
	}
}

// begin reads the first byte of a field.
func (f *fields) begin(b byte) {
	longest := byte(0x0f) // the index continues
	f.strings = valueOnly
	switch {
	case b&indexed != 0:
		longest, f.strings = 0x7f, 0
	case b&incremental != 0:
		longest = 0x3f
	case b&tableSize != 0:
		longest, f.strings = 0x1f, 0
	}
	switch {
	case b&longest == longest:
		f.part = indexRest
		return
	case b&longest == 0 && f.strings > 0:
		f.strings = nameAndValue
	}
	f.next()
}

// content begins the content of a string.
func (f *fields) content() {
	if f.part = stringContent; f.skip == 0 {
		f.next()
	}
}

// next begins the next string of the field, or the next field.
func (f *fields) next() {
	if f.part = fieldStart; f.strings > 0 {
		f.part = stringStart
	}
}
