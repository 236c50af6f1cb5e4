package callout

import (
	"cmp"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// exchange is a call of Open Match's Evaluator service. Send and Done are called by one goroutine, and Receive by
// another one.
type exchange interface {
	Send(m *openmatch.Match) error
	Done() error
	Receive() (id string, err error) // io.EOF at the end
	Close(err error)                 // ends the call; err is its error
}

// converse sends in a goroutine of its own, since an evaluator may answer before it has received all matches, and
// returns the error of receive. stop ends what send waits for.
func converse(call exchange, send func(), receive func() error, stop func()) error {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		send()
	}()
	err := receive()
	call.Close(err)
	stop()
	<-sent
	return err
}

// receiveIDs passes the IDs of accepted matches on, until the evaluator ends its answer.
func receiveIDs(call exchange, accept func(id string) error) error {
	for {
		id, err := call.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := accept(id); err != nil {
			return err
		}
	}
}

// grpcExchange is a call of an evaluator over gRPC.
type grpcExchange struct {
	stream grpc.BidiStreamingClient[openmatch.EvaluateRequest, openmatch.EvaluateResponse]
	end    func(error)
}

func openGRPC(ctx context.Context, conn *grpc.ClientConn, queue string) (exchange, error) {
	calling, span := inQueue(ctx, openmatch.Evaluator_Evaluate_FullMethodName, queue)
	stream, err := openmatch.NewEvaluatorClient(conn).Evaluate(calling)
	if err != nil {
		endSpan(span, err)
		return nil, err
	}
	return &grpcExchange{stream: stream, end: func(err error) { endSpan(span, err) }}, nil
}

func (x *grpcExchange) Send(m *openmatch.Match) error {
	return x.stream.Send(&openmatch.EvaluateRequest{Match: m})
}
func (x *grpcExchange) Done() error { return x.stream.CloseSend() }

func (x *grpcExchange) Receive() (string, error) {
	answer, err := x.stream.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		err = asServiceError(x.stream, err)
	}
	return answer.GetMatchId(), err
}
func (x *grpcExchange) Close(err error) { x.end(err) }

// httpExchange is a call of an evaluator over HTTP. The request's body stays open while the response is read.
type httpExchange struct {
	body    *io.PipeWriter
	results chan string
	ended   chan struct{} // closed when the call has ended
	err     error         // of the call, once it has ended
	stop    context.CancelFunc
}

func openHTTP(ctx context.Context, client *jsonhttp.Client, url string) *httpExchange {
	ctx, stop := context.WithCancel(ctx)
	reader, writer := io.Pipe()
	x := &httpExchange{body: writer, results: make(chan string), ended: make(chan struct{}), stop: stop}
	go func() {
		defer close(x.ended)
		x.err = x.run(ctx, client, url, reader)
		_ = reader.CloseWithError(io.ErrClosedPipe) // for Send
	}()
	return x
}

// run makes the call.
func (x *httpExchange) run(ctx context.Context, client *jsonhttp.Client, url string, body io.Reader) error {
	answer, err := client.Stream(ctx, url, body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	return eachResult(answer, func(text []byte) error {
		response := new(openmatch.EvaluateResponse)
		if err := decode.Unmarshal(text, response); err != nil {
			return err
		}
		select {
		case x.results <- response.GetMatchId():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

func (x *httpExchange) Send(m *openmatch.Match) error {
	text, err := protojson.Marshal(&openmatch.EvaluateRequest{Match: m})
	if err != nil {
		return err
	}
	_, err = x.body.Write(append(text, '\n'))
	return err
}
func (x *httpExchange) Done() error { return x.body.Close() }

func (x *httpExchange) Receive() (string, error) {
	select {
	case id := <-x.results:
		return id, nil
	case <-x.ended:
		return "", cmp.Or(x.err, io.EOF)
	}
}

func (x *httpExchange) Close(error) {
	x.stop()
	<-x.ended
}
