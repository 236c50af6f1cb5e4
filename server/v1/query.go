package v1

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/wire"
)

// fetchQuery reads max and wait.
func fetchQuery(raw string, q *channel.Query) error {
	return readQuery(raw, [2]string{"max", "wait"}, func(name, value string) (err error) {
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
	return readQuery(raw, [2]string{"cursor", "limit"}, func(name, value string) error {
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

// readQuery calls read with each of two parameters, and refuses unknown and repeated ones. Unlike url.ParseQuery it makes
// no map.
func readQuery(raw string, known [2]string, read func(name, value string) error) error {
	var seen [len(known)]bool
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
		i := slices.Index(known[:], name)
		switch {
		case i < 0:
			return badQuery(name, fmt.Sprintf("unknown query parameter %.64q: this call has %s and %s", name, known[0], known[1]))
		case seen[i]:
			return badQuery(name, "the query parameter "+name+" is given twice")
		}
		seen[i] = true
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
		return "", "", badQuery("", fmt.Sprintf("the query parameter %.64q has an invalid percent-escape", pair))
	}
	return plainName, plainValue, nil
}

func badQuery(name, detail string) error {
	return &wire.InputError{Slug: fault.SlugInvalidQuery, Field: name, Detail: detail, Offset: -1}
}
