package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// Codes of errors that aren't replies of Redis.
const (
	codeMoving    = "MOVING"  // ErrMoving
	codeMalformed = "reply"   // ErrReply, or that of package topology
	codeNetwork   = "network" // of the connection
)

// causeOf returns why a call has failed.
func causeOf(err error) refusal.Cause {
	if errors.Is(err, ErrMoving) {
		return refusal.Cause{Code: codeMoving, Transient: true, Fault: refusal.Unavailable}
	}
	if c, ok := refusal.Of(err); ok {
		return c
	}
	var number *strconv.NumError // of a value that is no number
	switch {
	case errors.As(err, &number):
		return refusal.Cause{Code: codeMalformed, Fault: fault.ErrDamaged}
	case errors.Is(err, ErrReply), errors.Is(err, topology.ErrReply):
		return refusal.Cause{Code: codeMalformed}
	case errors.Is(err, context.Canceled):
		return refusal.Cause{Code: codeNetwork, Fault: refusal.Unavailable}
	case permanent(err):
		return refusal.Cause{Code: codeNetwork, Fault: refusal.Refused}
	}
	return refusal.Cause{Code: codeNetwork, Transient: true, Fault: refusal.Unavailable}
}

// permanent reports whether an error that isn't Redis's stays until somebody changes the configuration of Redis or of
// the service: a certificate, another server at the address. ErrClosing isn't one: a cluster or Sentinel client closes
// the connections to nodes that it leaves.
func permanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	return isFault(err) || errors.As(err, &certificate) || errors.Is(err, ErrTooOld) ||
		errors.Is(err, Err32Bit) || errors.Is(err, ErrSentinel) || errors.Is(err, ErrCluster) ||
		errors.Is(err, ErrProtocol)
}

// code returns the word that names the cause of an error in metrics.
func code(err error) string { return causeOf(err).Code }

// transient reports whether the same call may succeed a little later.
func transient(err error) bool { return causeOf(err).Transient }

// ReplyLost reports whether err is an error of the connection, after which Redis may have run the call or not.
func ReplyLost(err error) bool { return err != nil && code(err) == codeNetwork }

func isFault(err error) bool {
	var f *fault.Error
	return errors.As(err, &f)
}

// faultOf returns an error of package fault for an error of Redis or of its connection. It returns a fault as it is.
func faultOf(err error) error {
	if isFault(err) {
		return err
	}
	if f := causeOf(err).Fault; f != nil {
		return f.WithCause(err)
	}
	return &fault.Error{
		Kind: fault.Internal, Slug: fault.SlugInternal,
		Detail: "the storage gave an answer that wasn't expected", Cause: err,
	}
}
