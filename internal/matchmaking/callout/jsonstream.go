package callout

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
)

// decode reads messages in protobuf's JSON mapping. Programs may have newer ones.
var decode = protojson.UnmarshalOptions{DiscardUnknown: true}

// result is an element of a stream in Open Match's HTTP transcoding, or its end with an error. The code has one of two
// names, by the version of the gateway.
type result struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code     int    `json:"code"`
		GRPCCode int    `json:"grpcCode"`
		Message  string `json:"message"`
	} `json:"error"`
}

// eachResult calls each with the elements of a stream, as they arrive.
func eachResult(stream io.Reader, each func(text []byte) error) error {
	limited := &elementReader{from: stream}
	elements := json.NewDecoder(limited)
	for {
		var r result
		limited.remaining = grpcMessageBytes
		switch err := elements.Decode(&r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the response: %w", err)
		case r.Error != nil:
			code := r.Error.GRPCCode
			if code == 0 {
				code = r.Error.Code
			}
			if code < 1 || code > 16 {
				code = backend.CodeUnknown
			}
			return status.Error(codes.Code(code), r.Error.Message)
		}
		if err := each(r.Result); err != nil {
			return err
		}
	}
}

// elementReader limits the bytes that are read for one element.
type elementReader struct {
	from      io.Reader
	remaining int
}

// Read implements io.Reader.
func (r *elementReader) Read(p []byte) (int, error) {
	if r.remaining <= 0 {
		return 0, fmt.Errorf("%w: an element has over %d bytes", jsonhttp.ErrTooLarge, grpcMessageBytes)
	}
	n, err := r.from.Read(p[:min(len(p), r.remaining)])
	r.remaining -= n
	return n, err
}
