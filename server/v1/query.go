package v1

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/wire"
)

// The parameters of queries.
var (
	fetchParameters   = []string{"max", "wait"}
	pageParameters    = []string{"cursor", "limit"}
	queueParameters   = []string{"queue"}
	waitingParameters = []string{"waiting"}
)

// fetchQuery reads max and wait.
func fetchQuery(raw string, q *channel.Query) error {
	return readQuery(raw, fetchParameters, func(name, value string) (err error) {
		if name == "max" {
			q.Max, err = wire.ParseMax(value)
		} else {
			q.Wait, err = wire.ParseWait(value)
		}
		return err
	})
}

// pageQuery reads cursor and limit.
func pageQuery(raw string, p *channel.Page) error {
	return readQuery(raw, pageParameters, func(name, value string) error {
		if name == "cursor" {
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return badQuery(name, fmt.Sprintf("cursor is %.64q, it must be the cursor of an answer", value))
			}
			p.Cursor = channel.Cursor(n)
			return nil
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > channel.MaxPage {
			return badQuery(name, fmt.Sprintf("limit is %.64q, it must be from 1 to %d", value, channel.MaxPage))
		}
		p.Limit = n
		return nil
	})
}

// queueQuery reads queue.
func queueQuery(raw string) (queue string, err error) {
	err = readQuery(raw, queueParameters, func(_, value string) error {
		queue = value
		return matchmaking.CheckQueueName(value)
	})
	return queue, err
}

// readQuery calls read with each of a few parameters, and refuses unknown and repeated ones. Unlike url.ParseQuery it makes
// no map.
func readQuery(raw string, known []string, read func(name, value string) error) error {
	seen := 0 // a bit for each
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		name, value, err := unescapePair(pair)
		if err != nil {
			return err
		}
		i := slices.Index(known, name)
		switch {
		case i < 0:
			return badQuery(name, fmt.Sprintf("unknown query parameter %.64q: this call has %s", name, strings.Join(known, " and ")))
		case seen&(1<<i) != 0:
			return badQuery(name, "the query parameter "+name+" is given twice")
		}
		seen |= 1 << i
		if err := read(name, value); err != nil {
			return err
		}
	}
	return nil
}

func unescapePair(pair string) (name, value string, err error) {
	name, value, _ = strings.Cut(pair, "=")
	plainName, errName := url.QueryUnescape(name)
	plainValue, errValue := url.QueryUnescape(value)
	if errName != nil || errValue != nil {
		return "", "", badQuery("", fmt.Sprintf("the query parameter %.64q has an invalid percent-escape", name))
	}
	return plainName, plainValue, nil
}

func badQuery(name, detail string) error {
	return &wire.InputError{Slug: fault.SlugInvalidQuery, Field: name, Detail: detail, Offset: -1}
}
