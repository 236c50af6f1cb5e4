package streams

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// The parameters of queries.
const (
	ackParameter    = "ack"
	idParameter     = "lastEventId"
	subParameter    = "sub"
	tailParameter   = "tail"
	fromParameter   = "from"
	windowParameter = "window"
)

var (
	oneParameters  = []string{ackParameter, idParameter, windowParameter}
	tailParameters = []string{fromParameter, idParameter}
	manyParameters = []string{ackParameter, idParameter, windowParameter, subParameter, tailParameter}
	listParameters = []string{subParameter, tailParameter}
)

// readQuery reads the query, and the header Last-Event-ID, which goes before its parameter: a browser sends both when
// it reconnects.
func readQuery(c *web.Call, known []string) (q channel.StreamQuery, err error) {
	err = web.ReadQueryList(c.Request().URL.RawQuery, known, listParameters, func(name, value string) error {
		switch name {
		case ackParameter:
			q.Acknowledge = value == "resume"
			if !q.Acknowledge && value != "manual" {
				return web.RefuseParameter(name, fmt.Sprintf("ack is %.64q, it must be manual or resume", value))
			}
		case idParameter:
			q.Resume = value
		case subParameter:
			from, err := parseSource(value)
			q.From = append(q.From, from)
			return err
		case tailParameter:
			name, from, ok := cutLast(value)
			if !ok {
				return web.RefuseParameter(tailParameter,
					fmt.Sprintf("tail is %.64q, it must have the form channel/from", value))
			}
			start, err := parseFrom(tailParameter, from)
			q.From = append(q.From, channel.Source{Channel: name, Tail: &start})
			return err
		case fromParameter:
			start, err := parseFrom(name, value)
			q.From = []channel.Source{{Tail: &start}}
			return err
		default:
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > channel.MaxWindow {
				return web.RefuseParameter(name, fmt.Sprintf("window is %.64q, it must be from 1 to %d", value,
					channel.MaxWindow))
			}
			q.Window = n
		}
		return nil
	})
	if sent := c.Request().Header.Get(lastEventIDHeader); sent != "" {
		q.Resume = sent
	}
	return q, err
}

// parseSource parses channel/subscriber.
func parseSource(text string) (channel.Source, error) {
	name, subscriber, ok := cutLast(text)
	if !ok {
		return channel.Source{}, web.RefuseParameter(subParameter,
			fmt.Sprintf("sub is %.64q, it must have the form channel/subscriber", text))
	}
	return channel.Source{Channel: name, Subscriber: subscriber}, nil
}

// cutLast cuts the text after the last slash off the name of a channel, which may have slashes.
func cutLast(text string) (name, after string, found bool) {
	at := strings.LastIndexByte(text, '/')
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+1:], true
}

// parseFrom parses where a tail begins.
func parseFrom(parameter, text string) (channel.From, error) {
	switch text {
	case "latest":
		return channel.From{Start: channel.StartLatest}, nil
	case "earliest":
		return channel.From{Start: channel.StartEarliest}, nil
	}
	at, err := clock.Parse(text)
	if err != nil {
		return channel.From{}, &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidFrom, Field: parameter,
			Detail: fmt.Sprintf("from is %.64q, it must be latest, earliest or a clock from %d to %d", text, clock.Min,
				clock.Max)}
	}
	return channel.From{Start: channel.StartAt, Clock: at}, nil
}

// namedChannels calls allow with the channels of the query, until it returns false, and reports whether it never did.
func namedChannels(c *web.Call, allow func(name string) bool) bool {
	found := false
	for pair := range strings.SplitSeq(c.Request().URL.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, badName := url.QueryUnescape(name)
		value, badValue := url.QueryUnescape(value)
		if badName != nil || badValue != nil {
			return false
		}
		if name != subParameter && name != tailParameter {
			continue
		}
		if of, _, _ := cutLast(value); !allow(of) {
			return false
		}
		found = true
	}
	return found
}

// parameterOf returns the parameter that a source comes from, such as sub/1 for the second sub.
func parameterOf(from []channel.Source, i int) string {
	name, n := subParameter, 0
	if from[i].Tail != nil {
		name = tailParameter
	}
	for k := range i {
		if (from[k].Tail != nil) == (from[i].Tail != nil) {
			n++
		}
	}
	return name + "/" + strconv.Itoa(n)
}

// atParameter sets the field of an error.
func atParameter(err error, field string) error {
	var e *fault.Error
	if !errors.As(err, &e) {
		return err
	}
	at := *e
	at.Field = field
	return &at
}

// ofParameters changes the field of an error about sources, such as /from/3/channel, to their parameters.
func ofParameters(err error, from []channel.Source) error {
	var e *fault.Error
	if !errors.As(err, &e) || !strings.HasPrefix(e.Field, "/from") {
		return err
	}
	number, member, _ := strings.Cut(strings.TrimPrefix(e.Field, "/from/"), "/")
	i, failed := strconv.Atoi(number)
	if failed != nil || i >= len(from) {
		return atParameter(err, subParameter)
	}
	field := parameterOf(from, i)
	if member != "" {
		field += "/" + member
	}
	return atParameter(err, field)
}
