package tier

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// parts is how many locks the IDs are divided among.
const parts = 64

// table keeps the values of many IDs in memory, for readers that don't block on writers. Its methods may be called by
// many goroutines.
//
// Above its ID and its value, an entry takes at most 64 bytes, also right after the table has grown; of values above
// 1,000 bytes the allocator rounds up more, an eighth at most. An entry is one string: its end, its ID and its value.
// These strings stand in chunks of fixed size; a map from 32 bits of the ID's hash to a 32-bit position finds them: 9
// bytes a place, of which half can be empty. A map from IDs or 64-bit hashes to strings would take 52 to 60 bytes a
// place after it has grown, before a value is stored. Libraries that keep as little (bigcache, freecache) or share the
// work among locks (ristretto, otter) are caches: they evict, and the last two need more than 64 bytes for an entry.
type table struct {
	now     func() time.Duration // by the monotonic clock
	entries atomic.Int64
	bytes   atomic.Int64
	parts   [parts]part
}

// newTable returns an empty table.
func newTable() *table {
	began := time.Now()
	return newTableAt(func() time.Duration { return time.Since(began) })
}

func newTableAt(now func() time.Duration) *table {
	t := &table{now: now}
	for i := range t.parts {
		t.parts[i].at, t.parts[i].others = map[uint32]uint32{}, map[string]uint32{}
	}
	return t
}

// Len returns how many values there are, with those that have ended and weren't removed by Sweep yet.
func (t *table) Len() int64 { return t.entries.Load() }

// Bytes returns how long their IDs and values are together.
func (t *table) Bytes() int64 { return t.bytes.Load() }

// Get returns the value of an ID.
func (t *table) Get(id string) (value string, ok bool) {
	p, key := t.part(id)
	p.mu.RLock()
	e := p.find(id, key).entry
	p.mu.RUnlock()
	if e == "" || e.ended(t.now()) {
		return "", false
	}
	_, value = e.split()
	return value, true
}

// Put sets the value of an ID. left is for how long it is valid; 0: until it is replaced or deleted. round is for
// Sweep.
func (t *table) Put(id string, value []byte, ttl time.Duration, round uint8) {
	var end time.Duration
	if ttl > 0 {
		end = t.now() + ttl
	}
	p, key := t.part(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.find(id, key)
	if old.entry != "" {
		if _, had := old.entry.split(); end == 0 && !old.entry.ends() && had == string(value) {
			p.chunks[old.at/chunkSize].rounds[old.at%chunkSize] = round
			return
		}
		t.count(old.entry, -1)
	} else {
		old.at = p.place(id, key)
	}
	e := makeEntry(id, value, end)
	t.count(e, 1)
	p.set(old.at, e, round)
}

// Delete removes the value of an ID, if there is one.
func (t *table) Delete(id string) {
	p, key := t.part(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	t.remove(p, p.find(id, key), id, key)
}

// Sweep removes expired values from one of the Parts; and with only, also those that were last put in another round.
func (t *table) Sweep(part int, only bool, round uint8) {
	p, now := &t.parts[part%parts], t.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range p.chunks {
		for j, e := range c.entries {
			if e == "" || !e.ended(now) && (!only || c.rounds[j] == round) {
				continue
			}
			id, _ := e.split()
			t.remove(p, found{entry: e, at: uint32(i*chunkSize + j)}, id, keyOf(xxhash.Sum64String(id)))
		}
	}
}

func (t *table) remove(p *part, f found, id string, key uint32) {
	if f.entry == "" {
		return
	}
	t.count(f.entry, -1)
	p.remove(f.at, id, key)
}

func (t *table) count(e entry, sign int64) {
	id, value := e.split()
	t.entries.Add(sign)
	t.bytes.Add(sign * int64(len(id)+len(value)))
}

// part returns the part of an ID, and the ID's key there. Both are made from the low bits of the hash: a table may be
// of one interval of hashes, in which the high bits are all the same.
func (t *table) part(id string) (*part, uint32) {
	hash := xxhash.Sum64String(id)
	return &t.parts[hash%parts], keyOf(hash)
}

func keyOf(hash uint64) uint32 { return uint32(hash / parts) }

// entry is an ID with its value: the length of the ID and whether there is an end, the end, the ID, the value. "" is
// none.
type entry string

func makeEntry(id string, value []byte, end time.Duration) entry {
	head := make([]byte, 0, binary.MaxVarintLen64+8+len(id)+len(value))
	length := uint64(len(id)) << 1
	if end > 0 {
		head = binary.BigEndian.AppendUint64(binary.AppendUvarint(head, length|1), uint64(end))
	} else {
		head = binary.AppendUvarint(head, length)
	}
	return entry(append(append(head, id...), value...)) // as long as it must be
}

func (e entry) ends() bool { return e[0]&1 == 1 }

// ended reports whether the entry has expired at a time.
func (e entry) ended(now time.Duration) bool {
	if !e.ends() {
		return false
	}
	_, head := e.length()
	return uint64(now) >= binary.BigEndian.Uint64([]byte(e[head:head+8]))
}

// length returns the length of the ID, and the size of the header before the end.
func (e entry) length() (id, head int) {
	var length uint64
	for shift := 0; ; shift += 7 {
		b := e[head]
		head++
		length |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return int(length >> 1), head
		}
	}
}

func (e entry) split() (id, value string) {
	length, head := e.length()
	if e.ends() {
		head += 8
	}
	return string(e[head : head+length]), string(e[head+length:])
}

// chunkSize makes a chunk 4,080 bytes long, which the allocator rounds up to 4,096.
const chunkSize = 240

type chunk struct {
	entries [chunkSize]entry
	rounds  [chunkSize]uint8
}

// part is the values of some IDs.
type part struct {
	mu sync.RWMutex
	at map[uint32]uint32 // where the entry with a key is
	// entries whose hash another ID has; the map has a secret seed, in case an attacker chooses such IDs
	others map[string]uint32
	chunks []*chunk
	free   []uint32 // places that can be used again
	used   uint32   // places in chunks that were used
	_      [64]byte // keeps the locks of two parts out of one cache line
}

// found is an entry and its location; "" if there is none.
type found struct {
	entry entry
	at    uint32
}

func (p *part) find(id string, key uint32) found {
	if at, ok := p.at[key]; ok {
		e := p.chunks[at/chunkSize].entries[at%chunkSize]
		if of, _ := e.split(); of == id {
			return found{e, at}
		}
	}
	if len(p.others) == 0 {
		return found{}
	}
	at, ok := p.others[id]
	if !ok {
		return found{}
	}
	return found{p.chunks[at/chunkSize].entries[at%chunkSize], at}
}

// place returns a place for a new entry.
func (p *part) place(id string, key uint32) (at uint32) {
	if n := len(p.free); n > 0 {
		at, p.free = p.free[n-1], p.free[:n-1]
	} else {
		if at = p.used; at%chunkSize == 0 {
			p.chunks = append(p.chunks, &chunk{})
		}
		p.used++
	}
	if _, taken := p.at[key]; taken {
		p.others[string(append([]byte(nil), id...))] = at
	} else {
		p.at[key] = at
	}
	return at
}

func (p *part) set(at uint32, e entry, round uint8) {
	c := p.chunks[at/chunkSize]
	c.entries[at%chunkSize], c.rounds[at%chunkSize] = e, round
}

func (p *part) remove(at uint32, id string, key uint32) {
	if first, ok := p.at[key]; ok && first == at {
		delete(p.at, key)
	} else {
		delete(p.others, id)
	}
	p.set(at, "", 0)
	p.free = append(p.free, at)
}
