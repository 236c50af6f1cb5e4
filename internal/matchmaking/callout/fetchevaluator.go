package callout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// FetchEvaluator returns the evaluator of a queue that its user directs: Open Match's Evaluator service over gRPC or
// its HTTP transcoding, or the default one. It calls targets only, or any service if targets is nil. Errors:
// fault.SlugInvalidQueue.
//
// A service receives each proposal when it is made, and may answer at any time. It must end its answer within
// evaluator.timeout after the last proposal.
func FetchEvaluator(d matchmaking.Definition, targets *jsonhttp.Targets) (backend.Evaluator, error) {
	if d.Evaluator.Kind != EvaluatorGRPC && d.Evaluator.Kind != EvaluatorHTTP {
		return backend.ByScore{}, nil
	}
	if err := targets.Check(d.Evaluator.URL); err != nil {
		return nil, matchmaking.InvalidKey("evaluator.url", err)
	}
	e := &fetchEvaluator{queue: d.Name, timeout: cmp.Or(d.Evaluator.Timeout.Std(), matchmaking.DefaultCallTimeout)}
	if d.Evaluator.Kind == EvaluatorHTTP {
		client := jsonhttp.New(targets, 0, responseBytes)
		url := strings.TrimSuffix(d.Evaluator.URL, "/") + "/v1/evaluator/matches:evaluate"
		e.open = func(ctx context.Context) (exchanged, error) { return openHTTP(ctx, client, url), nil }
		e.close = client.CloseIdle
		return e, nil
	}
	conn, err := dialGRPC(d.Evaluator.URL, targets)
	if err != nil {
		return nil, matchmaking.InvalidKey("evaluator.url", err)
	}
	e.open = func(ctx context.Context) (exchanged, error) { return openGRPC(ctx, conn, d.Name) }
	e.close = func() { closeConn(conn) }
	return e, nil
}

// fetchEvaluator calls an evaluator while functions propose.
type fetchEvaluator struct {
	queue   string
	timeout time.Duration
	open    func(ctx context.Context) (exchanged, error)
	close   func()
}

// Close implements backend.Evaluator.
func (e *fetchEvaluator) Close() { e.close() }

// exchanged is a call of an evaluator. Send and Done are called by one goroutine, and Receive by another one.
type exchanged interface {
	Send(m *openmatch.Match) error
	Done() error
	Receive() (id string, err error) // io.EOF at the end
	Close(err error)                 // ends the call; err is its error
}

// Evaluate implements backend.Evaluator.
func (e *fetchEvaluator) Evaluate(ctx context.Context, proposals <-chan backend.Proposal,
	accept func(id string) error) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	call, err := e.open(ctx)
	if err != nil {
		return failureOf(ctx, "evaluator", err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		e.send(ctx, call, proposals, stop)
	}()
	err = e.receive(call, accept)
	err = failureOf(ctx, "evaluator", err)
	call.Close(err)
	stop(nil)
	<-sent
	return err
}

// send sends proposals until there are no more. An error of the call is returned by Receive.
func (e *fetchEvaluator) send(ctx context.Context, call exchanged, proposals <-chan backend.Proposal,
	stop context.CancelCauseFunc) {
	for {
		select {
		case p, open := <-proposals:
			if !open {
				_ = call.Done()
				late := &backend.Failure{Code: backend.CodeDeadlineExceeded,
					Text: fmt.Sprintf("evaluator: no end of its answer within %s after the last proposal", e.timeout)}
				timer := time.AfterFunc(e.timeout, func() { stop(late) })
				<-ctx.Done()
				timer.Stop()
				return
			}
			match := new(openmatch.Match)
			if err := proto.Unmarshal(p.Content, match); err != nil {
				stop(fmt.Errorf("read a proposal: %w", err))
				return
			}
			if call.Send(match) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// receive passes the IDs of accepted matches on.
func (e *fetchEvaluator) receive(call exchanged, accept func(id string) error) error {
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

func openGRPC(ctx context.Context, conn *grpc.ClientConn, queue string) (exchanged, error) {
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
