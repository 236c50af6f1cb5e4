package web

import (
	"regexp"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/tidemark-dev/tidemark/fault"
)

// A path is compared with those of routes only if it is as short as these.
const (
	maxSuggestedBytes = 256
	maxTypos          = 2 // letters that are wrong, missing or too many, in all of a path
)

var parameter = regexp.MustCompile(`/:([A-Za-z]+)`)

// noPath returns ErrNoPath for a path, with the path of a route that was probably meant, of those for which has returns
// true. A path may lack /v1.
func (r *Router) noPath(path string, has func(*Route) bool) *fault.Error {
	if len(path) > maxSuggestedBytes {
		return ErrNoPath
	}
	nearest, fewest := "", maxTypos+1
	for i := range r.routes {
		route := &r.routes[i]
		if route.Path == nearest || !has(route) {
			continue
		}
		for _, wanted := range []string{path, "/v1" + path} {
			if n := typos(wanted, route.Path); n < fewest {
				nearest, fewest = route.Path, n
			}
		}
	}
	if nearest == "" {
		return ErrNoPath
	}
	e := *ErrNoPath
	e.Detail += "; did you mean " + strings.ReplaceAll(parameter.ReplaceAllString(nearest, "/{$1}"), `\:`, ":") + "?"
	return &e
}

// typos returns how many letters of a path differ from the path of a route, whose parameters may be anything. It is more
// than maxTypos for paths of different lengths.
func typos(path, route string) int {
	segments, wanted := strings.Split(path, "/"), strings.Split(route, "/")
	if len(segments) != len(wanted) {
		return maxTypos + 1
	}
	n := 0
	for i, segment := range wanted {
		switch {
		case segment == segments[i], strings.HasPrefix(segment, ":") && segments[i] != "":
		case len(segment) <= maxTypos: // any word differs from it by so few letters
			return maxTypos + 1
		default:
			n += levenshtein.ComputeDistance(segment, segments[i])
		}
	}
	return n
}
