// Package gzipped compresses and decompresses the messages of the HTTP port with gzip.
package gzipped

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"
)

// NewCompressor returns a compressor of answers.
func NewCompressor() connect.Compressor { return gzip.NewWriter(io.Discard) }

// Decompressors returns a maker of decompressors of clients' messages, of at most so many bytes each. vanguard limits only what
// it reads.
func Decompressors(most int64) func() connect.Decompressor {
	return func() connect.Decompressor { return &decompressor{most: most} }
}

// decompressor limits what a message can become.
type decompressor struct {
	gzip.Reader
	most, read int64
}

// Reset begins a message.
func (d *decompressor) Reset(r io.Reader) error {
	d.read = 0
	return told(d.Reader.Reset(r))
}

// Read reads a part of a message.
func (d *decompressor) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if d.read += int64(n); d.read > d.most {
		return 0, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the message has more than %d bytes", d.most))
	}
	return n, told(err)
}

// told returns an error of what a client has compressed, which is the client's fault.
func told(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the message isn't valid gzip: %w", err))
}
