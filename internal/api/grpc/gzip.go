package grpc

import (
	"compress/gzip"
	"io"
)

// inflater decompresses messages of up to maxBytes, and no more of a larger one. The connect library alone would
// decompress all of it, to say how large it is.
type inflater struct {
	gzip.Reader

	maxBytes, read int
}

// Reset begins a message.
func (i *inflater) Reset(r io.Reader) error {
	i.read = 0
	return i.Reader.Reset(r)
}

// Read decompresses a part of a message. Errors: those of gzip, and a *connect.Error if the message is too large.
func (i *inflater) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if i.read += n; i.read > i.maxBytes {
		return 0, connectError(tooLarge(int64(i.maxBytes)))
	}
	return n, err
}

// inflate returns a compressed message of at most maxBytes. The error has a gRPC status.
func inflate(data io.Reader, maxBytes int) ([]byte, error) {
	i := inflater{maxBytes: maxBytes}
	err := i.Reset(data)
	if err != nil {
		return nil, errNotGzip(err)
	}
	text, err := io.ReadAll(&i)
	switch {
	case i.read > maxBytes:
		return nil, tooLarge(int64(maxBytes))
	case err != nil:
		return nil, errNotGzip(err)
	}
	return text, nil
}

func errNotGzip(err error) error { return badRequest("the message isn't valid gzip: " + err.Error()) }
