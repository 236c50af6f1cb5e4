package streams

import "encoding/binary"

const (
	frameHeader  = 14 // bytes of the header of a frame at most, with its mask
	controlFrame = 0x08
	dataOpcodes  = 0x07
	maskBit      = 0x80
	length16     = 126 // the length follows in 2 bytes
	length64     = 127 // the length follows in 8 bytes

	// smallFragment is the size of a fragment that is free, except for the first one of a message.
	smallFragment = 64
)

// meter finds the frames of RFC 6455, section 5.2, in what a client sends, and returns their price. The library has no
// hook for fragments: it reads any number of empty ones at full speed.
type meter struct {
	header  [frameHeader]byte
	have    int    // bytes of the header
	payload uint64 // bytes left of the current frame
}

// count returns the price of the frames whose headers end in data: 1 for each message, control frame and small
// fragment.
func (m *meter) count(data []byte) (price int) {
	for len(data) > 0 {
		if m.payload > 0 {
			n := min(m.payload, uint64(len(data)))
			m.payload -= n
			data = data[n:]
			continue
		}
		m.header[m.have] = data[0]
		m.have++
		data = data[1:]
		if m.have < m.size() {
			continue
		}
		m.have, m.payload = 0, m.length()
		if first := m.header[0]; first&(controlFrame|dataOpcodes) != 0 || m.payload < smallFragment {
			price++
		}
	}
	return price
}

// isBetween reports whether what was counted ends with a frame.
func (m *meter) isBetween() bool { return m.have == 0 && m.payload == 0 }

// rest returns how many bytes belong to the current frame, or to its header, as far as is known.
func (m *meter) rest() int {
	if m.payload > 0 {
		return int(min(m.payload, 1<<30))
	}
	return m.size() - m.have
}

// size returns the size of the header, as far as is known.
func (m *meter) size() int {
	size := 2
	if m.have < size {
		return size
	}
	switch m.header[1] &^ maskBit {
	case length16:
		size += 2
	case length64:
		size += 8
	}
	if m.header[1]&maskBit != 0 {
		size += 4
	}
	return size
}

// length returns the size of the payload.
func (m *meter) length() uint64 {
	switch n := m.header[1] &^ maskBit; n {
	case length16:
		return uint64(binary.BigEndian.Uint16(m.header[2:]))
	case length64:
		return binary.BigEndian.Uint64(m.header[2:])
	default:
		return uint64(n)
	}
}
