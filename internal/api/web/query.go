package web

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// ReadQuery calls read with each parameter of a raw query, and refuses those that are not known, at most 64 of them, or
// are repeated. Unlike url.ParseQuery it makes no map. Errors: those of RefuseParameter and of read.
func ReadQuery(raw string, known []string, read func(name, value string) error) error {
	return ReadQueryList(raw, known, nil, read)
}

// ReadQueryList is ReadQuery, except that the parameters of lists may be repeated.
func ReadQueryList(raw string, known, lists []string, read func(name, value string) error) error {
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
			return RefuseParameter(name, fmt.Sprintf("unknown query parameter %.64q: this call has %s", name,
				strings.Join(known, " and ")))
		case seen&(1<<i) != 0 && !slices.Contains(lists, name):
			return RefuseParameter(name, "the query parameter "+name+" is given twice")
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
		return "", "", RefuseParameter("", fmt.Sprintf("the query parameter %.64q has an invalid percent-escape", name))
	}
	return plainName, plainValue, nil
}

// RefuseParameter returns the error for a parameter: a *wire.InputError with fault.SlugInvalidQuery.
func RefuseParameter(name, detail string) error {
	return &wire.InputError{Slug: fault.SlugInvalidQuery, Field: name, Detail: detail, Offset: -1}
}
