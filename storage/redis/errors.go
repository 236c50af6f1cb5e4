package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/fault"
)

// retryAfter is the time after which clients should try again: about as long as a fail-over takes.
const retryAfter = time.Second

// The codes that the program compares with.
const (
	codeMasterDown   = "MASTERDOWN" // a replica without its primary refuses reads, too
	codeMaxClients   = "MAXCLIENTS"
	codeMoved        = "MOVED"
	codeMoving       = "MOVING"
	codeNetwork      = "network"
	codeNoPermission = "NOPERM"
	codeNoScript     = "NOSCRIPT"
	codeReadOnly     = "READONLY"
	codeTryAgain     = "TRYAGAIN" // a slot is being moved
	codeWrongType    = "WRONGTYPE"
)

// code returns the first word of a Redis error, which names it; codeNetwork for an error of the connection.
func code(err error) string {
	if errors.Is(err, ErrMoving) {
		return codeMoving
	}
	var e *rueidis.RedisError
	if errors.As(err, &e) {
		return firstWord(e.Error())
	}
	if errors.Is(err, ErrReply) {
		return "reply"
	}
	return codeNetwork
}

// firstWord returns a code also for errors that Redis gives no other code than ERR, which the client cuts off. Commands
// that the user of a script may not run are among them in Redis 7.0.
func firstWord(text string) string {
	switch {
	case strings.HasPrefix(text, "max number of clients"):
		return codeMaxClients
	case strings.HasPrefix(text, "The user executing the script can't"),
		strings.HasPrefix(text, "ACL failure in script:"):
		return codeNoPermission
	case strings.HasPrefix(text, "WAIT cannot be used with replica"):
		return codeReadOnly
	}
	word, _, _ := strings.Cut(text, " ")
	return word
}

// SlotMoving reports whether err is Redis's refusal of a command with several keys because their slot is being moved.
// Commands with one key each work then.
func SlotMoving(err error) bool { return err != nil && code(err) == codeTryAgain }

// WrongType reports whether err is Redis's refusal of a command because its key has a value of another type.
func WrongType(err error) bool { return err != nil && code(err) == codeWrongType }

// ReplyLost reports whether err is an error of the connection, after which Redis may have run the call or not.
func ReplyLost(err error) bool { return err != nil && code(err) == codeNetwork }

// transient reports whether the same call may succeed a little later.
func transient(err error) bool {
	switch code(err) {
	case codeMoving, codeTryAgain, "CLUSTERDOWN", "LOADING", codeReadOnly, codeMasterDown, "NOREPLICAS", "BUSY", codeMoved,
		"ASK", "UNBLOCKED", codeMaxClients:
		return true
	case codeNetwork:
		return !permanent(err)
	default:
		return false
	}
}

// permanent reports whether an error that isn't Redis's stays, however often the call is repeated. ErrClosing isn't
// one: a cluster or Sentinel client closes the connections to nodes that it leaves.
func permanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	return isFault(err) || errors.As(err, &certificate) || errors.Is(err, ErrTooOld) ||
		errors.Is(err, Err32Bit) || errors.Is(err, ErrSentinel) || errors.Is(err, ErrCluster) ||
		errors.Is(err, ErrProtocol) || errors.Is(err, context.Canceled)
}

// refusesWrites reports whether an error code means that a server serves reads only.
func refusesWrites(code string) bool {
	return code == codeReadOnly || code == "MISCONF" || code == "OOM" || code == "NOREPLICAS"
}

func isFault(err error) bool {
	var f *fault.Error
	return errors.As(err, &f)
}

// errRefused is the error of a call that fails until somebody changes the configuration of Redis or of the service.
// Clients are told no more: the log has the cause and the advice.
var errRefused = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugUnavailable, RetryAfter: refusedAfter,
	Detail: "the storage refuses what the service asks of it; trying again helps only after its operator has changed " +
		"its configuration or that of the service, whose log says what to change"}

// refusedAfter is the time after which clients should try again when somebody must change something first.
const refusedAfter = 10 * time.Second

// refusesService reports whether an error stays until somebody changes the configuration of Redis or of the service:
// rights, credentials, commands that Redis lacks, certificates, another server at the address.
func refusesService(err error) bool {
	switch c := code(err); c {
	case "NOAUTH", "WRONGPASS", "DENIED", codeNoPermission:
		return true
	case codeNetwork:
		return permanent(err) && !errors.Is(err, context.Canceled)
	default:
		return isUnknownCommand(err)
	}
}

// isUnknownCommand reports whether Redis doesn't have a command, or has renamed it.
func isUnknownCommand(err error) bool {
	var e *rueidis.RedisError
	return errors.As(err, &e) && (strings.HasPrefix(e.Error(), "unknown command") ||
		strings.HasPrefix(e.Error(), "Unknown Redis command called from script"))
}

// faultOf returns an error of package fault for an error of Redis or of its connection. It returns a fault as it is.
func faultOf(err error) error {
	if isFault(err) {
		return err
	}
	switch c := code(err); {
	case c == "OOM":
		return fault.ErrStorageFull.WithCause(err)
	case refusesService(err):
		return errRefused.WithCause(err)
	case transient(err), c == codeNetwork, c == "MISCONF":
		unavailable := fault.ErrUnavailable.WithCause(err)
		unavailable.RetryAfter = retryAfter
		return unavailable
	case c == "DAMAGED": // of our scripts
		return fault.ErrDamaged.WithCause(err)
	default:
		return &fault.Error{
			Kind: fault.Internal, Slug: fault.SlugInternal,
			Detail: "the storage gave an answer that wasn't expected", Cause: err,
		}
	}
}
