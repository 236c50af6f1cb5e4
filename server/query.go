package server

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/wire"
)

// fetchQuery reads max and wait, and refuses all else and what is there twice. It makes no map, as url.ParseQuery does.
func fetchQuery(raw string, q *channel.Query) error {
	var seenMax, seenWait bool
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
		switch name {
		case "max":
			if err = once(&seenMax, name); err == nil {
				q.Max, err = wire.ParseMax(value)
			}
		case "wait":
			if err = once(&seenWait, name); err == nil {
				q.Wait, err = wire.ParseWait(value)
			}
		default:
			err = badQuery(name, fmt.Sprintf("there is no query parameter %.64q here, only max and wait", name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func once(seen *bool, name string) error {
	if *seen {
		return badQuery(name, "the query parameter "+name+" is there twice")
	}
	*seen = true
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
	return &wire.InputError{Slug: wire.SlugInvalidQuery, Field: name, Detail: detail, Offset: -1}
}
