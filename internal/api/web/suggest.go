package web

import (
	"regexp"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/tidemark-dev/tidemark/fault"
)

// A path is compared with those of routes only if it is as short as these.
const (
	maxSuggestedBytes    = 256
	maxSuggestedSegments = 16
	maxTypos             = 2 // letters that are wrong, missing or too many, in all of a path
)

var parameter = regexp.MustCompile(`/:([A-Za-z]+)`)

// noPath returns ErrNoPath for a path, with the path of a route that was probably meant, of those for which has returns
// true. A path may lack /v1.
func (r *Router) noPath(path string, has func(*Route) bool) *fault.Error {
	if len(path) > maxSuggestedBytes || strings.Count(path, "/") > maxSuggestedSegments {
		return ErrNoPath
	}
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	inVersion := append([]string{"v1"}, segments...)
	nearest, fewest := "", maxTypos+1
	for i := range r.routes {
		route := &r.routes[i]
		if route.Path == nearest || !has(route) {
			continue
		}
		if n := min(typos(segments, route.Path, fewest), typos(inVersion, route.Path, fewest)); n < fewest {
			nearest, fewest = route.Path, n
		}
	}
	if nearest == "" {
		return ErrNoPath
	}
	e := *ErrNoPath
	e.Detail += "; did you mean " + strings.ReplaceAll(parameter.ReplaceAllString(nearest, "/{$1}"), `\:`, ":") + "?"
	return &e
}

// typos returns how many letters of a path differ from the path of a route, whose parameters may be anything. It
// returns limit if these are as many or more, and for paths of different lengths.
func typos(segments []string, route string, limit int) int {
	if strings.Count(route, "/") != len(segments) {
		return limit
	}
	n, at := 0, 0
	for segment := range strings.SplitSeq(route[1:], "/") {
		typed := segments[at]
		at++
		switch {
		case segment == typed, strings.HasPrefix(segment, ":") && typed != "":
		case len(segment) <= maxTypos, // any word differs from it by so few letters
			max(len(segment)-len(typed), len(typed)-len(segment)) >= limit:
			return limit
		default:
			if n += levenshtein.ComputeDistance(segment, typed); n >= limit {
				return limit
			}
		}
	}
	return n
}
