package durable

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// The headers of the protocol, as net/http writes them.
const (
	streamTTL        = "Stream-Ttl"
	streamExpires    = "Stream-Expires-At"
	streamSeq        = "Stream-Seq"
	streamCursor     = "Stream-Cursor"
	streamNext       = "Stream-Next-Offset"
	streamUpToDate   = "Stream-Up-To-Date"
	streamClosed     = "Stream-Closed"
	streamTruncated  = "Stream-Truncated" // not of the protocol
	streamEncoding   = "Stream-Sse-Data-Encoding"
	forkedFrom       = "Stream-Forked-From"
	forkOffset       = "Stream-Fork-Offset"
	forkSubOffset    = "Stream-Fork-Sub-Offset"
	producerID       = "Producer-Id"
	producerEpoch    = "Producer-Epoch"
	producerSeq      = "Producer-Seq"
	producerExpected = "Producer-Expected-Seq"
	producerReceived = "Producer-Received-Seq"

	headerType        = "Content-Type"
	headerETag        = "Etag"
	headerIfNoneMatch = "If-None-Match"
)

// RequestHeaders and ResponseHeaders are those that pages may send and read, besides those of package web.
var (
	RequestHeaders = []string{streamTTL, streamExpires, streamSeq, streamClosed, forkedFrom, forkOffset, forkSubOffset,
		producerID, producerEpoch, producerSeq, headerIfNoneMatch}
	ResponseHeaders = []string{streamNext, streamCursor, streamUpToDate, streamClosed, streamTruncated, streamTTL,
		streamExpires, streamEncoding, producerEpoch, producerSeq, producerExpected, producerReceived, headerETag}
)

// yes is the value of headers that are there or not.
const yes = "true"

// isSet reports whether the header Stream-Closed closes: any other value means nothing.
func isSet(h http.Header) bool { return strings.EqualFold(h.Get(streamClosed), yes) }

// refuse returns the error of a header.
func refuse(name, format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidHeader, Field: name, Detail: fmt.Sprintf(format, args...)}
}

// one returns the value of a header that may be there once, and whether it is there.
func one(h http.Header, name string) (value string, sent bool, err error) {
	switch values := h.Values(name); len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	default:
		return "", true, refuse(name, "the header %s is given twice", name)
	}
}

// propertiesOf returns the properties that the headers of a PUT give.
func propertiesOf(h http.Header) (p channel.Properties, err error) {
	contentType, sent, err := one(h, headerType)
	if err != nil {
		return p, err
	}
	if p.ContentType = contentType; !sent || strings.TrimSpace(contentType) == "" {
		p.ContentType = mediaBytes
	}
	ttl, hasTTL, err := one(h, streamTTL)
	if err != nil {
		return p, err
	}
	ends, hasEnd, err := one(h, streamExpires)
	switch {
	case err != nil:
		return p, err
	case hasTTL && hasEnd:
		return p, refuse(streamTTL, "the request has both Stream-TTL and Stream-Expires-At")
	case hasTTL:
		p.TTL, err = parseTTL(ttl)
	case hasEnd:
		if p.Ends, err = time.Parse(time.RFC3339, ends); err != nil || p.Ends.IsZero() {
			return p, refuse(streamExpires, "Stream-Expires-At is %.64q, it must be a time as in RFC 3339", ends)
		}
		p.Ends = p.Ends.Truncate(time.Millisecond)
	}
	return p, err
}

// maxTTLSeconds is the largest Stream-TTL.
const maxTTLSeconds = int64(channel.MaxTTL / time.Second)

func parseTTL(text string) (time.Duration, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != text || seconds < 1 || seconds > maxTTLSeconds {
		return 0, refuse(streamTTL, "Stream-TTL is %.64q, it must be a number of seconds from 1 to %d, without a sign or "+
			"leading zeros", text, maxTTLSeconds)
	}
	return time.Duration(seconds) * time.Second, nil
}

// checkFork returns an error for a request that makes a fork, or has a part of one.
func checkFork(h http.Header) error {
	if len(h.Values(forkedFrom)) > 0 {
		return errForks
	}
	for _, name := range []string{forkOffset, forkSubOffset} {
		if len(h.Values(name)) > 0 {
			return refuse(name, "the header %s needs %s", name, forkedFrom)
		}
	}
	return nil
}

// producerOf returns the producer of an append, or nil.
func producerOf(h http.Header) (*channel.Producer, error) {
	var values [3]string
	sent := 0
	names := [...]string{producerID, producerEpoch, producerSeq}
	for i, name := range names {
		value, is, err := one(h, name)
		if err != nil {
			return nil, err
		}
		if values[i] = value; is {
			sent++
		}
	}
	switch {
	case sent == 0:
		return nil, nil
	case sent < len(names):
		return nil, refuse(producerID, "the request has some of Producer-Id, Producer-Epoch and Producer-Seq: send all or none")
	case values[0] == "":
		return nil, refuse(producerID, "Producer-Id is empty")
	}
	p := &channel.Producer{ID: values[0]}
	for i, to := range []*int64{&p.Epoch, &p.Sequence} {
		name, text := names[i+1], values[i+1]
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n > uint64(clock.Max) {
			return nil, refuse(name, "%s is %.64q, it must be a number from 0 to %d", name, text, int64(clock.Max))
		}
		*to = int64(n)
	}
	return p, nil
}

// offset returns the text of an offset in a life of a channel.
func offset(epoch ulid.ULID, at, first clock.Clock) string {
	return channel.Offset{Position: channel.Position{Epoch: epoch, Clock: at}}.Text(first)
}

func setNumber(h http.Header, name string, n int64) { h.Set(name, strconv.FormatInt(n, 10)) }

// fail answers with an error, as /v1 does, and with the headers that the protocol has for it.
func fail(c *web.Call, err error) {
	var refused *channel.RefusedError
	header := c.Response().Header()
	for name := range header { // of an answer that was about to begin
		if strings.HasPrefix(name, "Stream-") || strings.HasPrefix(name, "Producer-") || name == headerETag {
			header.Del(name)
		}
	}
	if errors.As(err, &refused) {
		switch {
		case errors.Is(err, channel.ErrClosed):
			header.Set(streamClosed, yes)
			header.Set(streamNext, offset(refused.Position.Epoch, refused.Position.Clock, refused.First))
		case errors.Is(err, channel.ErrFenced):
			setNumber(header, producerEpoch, refused.Epoch)
		case errors.Is(err, channel.ErrProducerGap):
			setNumber(header, producerExpected, refused.Expected)
			header.Set(producerReceived, c.Request().Header.Get(producerSeq))
		}
	}
	web.Fail(c, err)
}
