package grpc

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"
)

// newGzipCompressor returns a compressor of answers on the HTTP port.
func newGzipCompressor() connect.Compressor { return gzip.NewWriter(io.Discard) }

// gzipDecompressors returns a constructor of decompressors that refuse messages of more than most bytes. vanguard
// limits only the compressed size.
func gzipDecompressors(most int64) func() connect.Decompressor {
	return func() connect.Decompressor { return &gzipDecompressor{most: most} }
}

// gzipDecompressor is a gzip.Reader with a limit on the decompressed size of a message.
type gzipDecompressor struct {
	gzip.Reader
	most, read int64
}

// Reset begins a message.
func (d *gzipDecompressor) Reset(r io.Reader) error {
	d.read = 0
	return clientsFault(d.Reader.Reset(r))
}

// Read decompresses a part of a message.
func (d *gzipDecompressor) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if d.read += int64(n); d.read > d.most {
		return 0, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the message has more than %d bytes", d.most))
	}
	return n, clientsFault(err)
}

// clientsFault returns err as an error caused by the client.
func clientsFault(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the message isn't valid gzip: %w", err))
}
