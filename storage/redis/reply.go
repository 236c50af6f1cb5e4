package redis

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"
)

// Status is the first element of a script's reply. The header of each script lists those that it returns.
type Status string

// The statuses that have the same meaning for all scripts. Run handles Moving and Again itself.
const (
	OK     Status = "OK"
	Moving Status = "MOVING" // the slot is being moved, and a key that the script needs isn't there
	Again  Status = "AGAIN"  // the script has done a part of its work: call it again
)

// ErrReply is the error of a reply that no script of ours returns.
var ErrReply = errors.New("malformed script reply")

// Reply is the reply of a script.
type Reply struct {
	Status Status
	script string
	values []rueidis.RedisMessage // after the status
}

// NewReply decodes the status of a result. script is the script's name, for errors. Errors: ErrReply, and the result's
// own.
func NewReply(script string, result rueidis.RedisResult) (Reply, error) {
	values, err := result.ToArray()
	if err != nil {
		return Reply{}, err
	}
	if len(values) == 0 {
		return Reply{}, fmt.Errorf("%w: %s returned nothing", ErrReply, script)
	}
	text, err := values[0].ToString()
	if err != nil {
		return Reply{}, fmt.Errorf("%w: %s: status: %w", ErrReply, script, err)
	}
	return Reply{Status: Status(text), script: script, values: values[1:]}, nil
}

// Decoder returns a decoder of the values after the status.
func (r Reply) Decoder() *Decoder { return &Decoder{name: r.script, values: r.values} }

// Refusals maps the statuses with which the scripts of a store refuse a call to errors.
type Refusals map[Status]error

// Error returns the error for the status of a reply, or an internal error if the status isn't one of the refusals.
func (m Refusals) Error(r Reply) error {
	if err := m[r.Status]; err != nil {
		return err
	}
	return faultOf(fmt.Errorf("%w: %s returned %q", ErrReply, r.script, r.Status))
}

// Check returns nil if a reply has one of the given statuses and no values. Otherwise it returns the error for its
// status.
func (m Refusals) Check(r Reply, successes ...Status) error {
	if !slices.Contains(successes, r.Status) {
		return m.Error(r)
	}
	return r.Decoder().End()
}

// Decoder reads values one after the other. After the first error its methods return zero values; End returns the
// error.
type Decoder struct {
	name   string // of the script or command, for errors
	values []rueidis.RedisMessage
	err    error
}

// NewDecoder returns a decoder of the values that a command returned. name is for errors.
func NewDecoder(name string, values []rueidis.RedisMessage) *Decoder {
	return &Decoder{name: name, values: values}
}

// More reports whether values remain and there was no error.
func (d *Decoder) More() bool { return len(d.values) > 0 && d.err == nil }

// Len returns how many values are left.
func (d *Decoder) Len() int { return len(d.values) }

func (d *Decoder) next() (rueidis.RedisMessage, bool) {
	if d.err != nil {
		return rueidis.RedisMessage{}, false
	}
	if len(d.values) == 0 {
		d.Fail(errors.New("too few values"))
		return rueidis.RedisMessage{}, false
	}
	v := d.values[0]
	d.values = d.values[1:]
	return v, true
}

// Fail records an error of the caller, if there is none yet: nil changes nothing.
func (d *Decoder) Fail(err error) {
	if err == nil || d.err != nil {
		return
	}
	if errors.Is(err, ErrReply) { // of a list in this reply
		d.err = err
		return
	}
	d.err = faultOf(fmt.Errorf("%w: %s: %w", ErrReply, d.name, err))
}

// Err returns the first error.
func (d *Decoder) Err() error { return d.err }

// End returns the first error, or an error if values are left.
func (d *Decoder) End() error {
	if len(d.values) > 0 {
		d.Fail(fmt.Errorf("%d values too many", len(d.values)))
	}
	return d.err
}

// ULID decodes a ULID.
func (d *Decoder) ULID() ulid.ULID {
	text := d.Text()
	if d.Err() != nil {
		return ulid.ULID{}
	}
	id, err := ulid.ParseStrict(text)
	d.Fail(err)
	return id
}

// Text reads a string.
func (d *Decoder) Text() string {
	v, ok := d.next()
	if !ok {
		return ""
	}
	text, err := v.ToString()
	d.Fail(err)
	return text
}

// Bytes reads a string as bytes, which the caller may keep.
func (d *Decoder) Bytes() []byte {
	v, ok := d.next()
	if !ok {
		return nil
	}
	b, err := v.AsBytes()
	d.Fail(err)
	return b
}

// Int64 reads an integer, or a string that holds one.
func (d *Decoder) Int64() int64 {
	v, ok := d.next()
	if !ok {
		return 0
	}
	n, err := v.AsInt64()
	d.Fail(err)
	return n
}

// Nil reports whether the next value is nil, and reads it then.
func (d *Decoder) Nil() bool {
	isNil := d.More() && d.values[0].IsNil()
	if isNil {
		d.values = d.values[1:]
	}
	return isNil
}

// Micros reads a time in microseconds since 1970.
func (d *Decoder) Micros() time.Time {
	us := d.Int64()
	if d.err != nil {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Millis reads a time in milliseconds since 1970; the empty string is the zero time.
func (d *Decoder) Millis() time.Time {
	text := d.Text()
	if d.err != nil || text == "" {
		return time.Time{}
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	d.Fail(err)
	return time.UnixMilli(ms).UTC()
}

// List reads a list, and returns a decoder of its elements. Pass its error to Fail, or call All.
func (d *Decoder) List() *Decoder {
	v, ok := d.next()
	if !ok {
		return &Decoder{name: d.name, err: d.err}
	}
	values, err := v.ToArray()
	d.Fail(err)
	return &Decoder{name: d.name, values: values, err: d.err}
}

// Take returns a decoder of the next n values.
func (d *Decoder) Take(n int) *Decoder {
	if n > len(d.values) {
		d.Fail(errors.New("too few values"))
	}
	if d.err != nil {
		return &Decoder{name: d.name, err: d.err}
	}
	taken := &Decoder{name: d.name, values: d.values[:n]}
	d.values = d.values[n:]
	return taken
}

// Each reads a list and calls read until all its elements are read.
func (d *Decoder) Each(read func(list *Decoder)) {
	list := d.List()
	for list.More() {
		read(list)
	}
	d.Fail(list.err)
}

// Texts reads a list of strings.
func (d *Decoder) Texts() []string {
	var found []string
	d.Each(func(list *Decoder) { found = append(found, list.Text()) })
	return found
}
