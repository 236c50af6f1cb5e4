package server_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/grpc"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

const faultsPage = "../docs/errors.md"

// TestFaultsPage compares docs/errors.md with package fault and the maps of its kinds. -update writes the page.
func TestFaultsPage(t *testing.T) {
	t.Parallel()
	page := faultsHead
	for _, e := range fault.List() {
		page += fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", e.Slug, statuses(e), codesOf(e), e.Cause, e.Remedy)
	}
	if *update {
		require.NoError(t, os.WriteFile(faultsPage, []byte(page), 0o644))
	}
	written, err := os.ReadFile(faultsPage)
	require.NoError(t, err)
	require.Equal(t, page, string(written), "write the page with: go test ./server -run TestFaultsPage -update")
}

func statuses(e fault.Entry) string {
	if e.Slug == fault.SlugInvalidRequest { // net/http refuses these, each with a status of its own
		return "400, 417, 431, 501, 505"
	}
	var list []string
	for _, kind := range e.Kinds {
		list = append(list, strconv.Itoa(web.StatusOf(kind)))
	}
	return strings.Join(list, ", ")
}

func codesOf(e fault.Entry) string {
	var list []string
	for _, kind := range e.Kinds {
		code := connect.Code(grpc.CodeOf(&fault.Error{Kind: kind, Slug: e.Slug})) // whose String is the protocol's
		list = append(list, "`"+strings.ToUpper(code.String())+"`")
	}
	return strings.Join(slices.Compact(list), ", ")
}

const faultsHead = `# Errors

Every error of the HTTP API is a problem as [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) has it, with the media type
` + "`" + wire.MediaProblem + "`" + `. Its ` + "`type`" + ` is ` + "`" + client.TypePrefix + "`" + ` and a slug of this table; programs should compare that, not
the text. ` + "`detail`" + ` says what is wrong with this request, ` + "`field`" + ` and ` + "`offset`" + ` where, and ` + "`requestId`" + ` is also in the
service's log. A 503 or 429 says in ` + "`retryAfter`" + ` and in the header ` + "`Retry-After`" + ` after how many seconds trying again may
help; it is always safe.

Calls of gRPC end with the code below and the same detail. The Go client has a variable for each slug that it can
receive, to compare with ` + "`errors.Is`" + `. The list is package ` + "`fault`" + `; this page is generated from it.

| slug | HTTP status | gRPC code | cause | what to do |
|---|---|---|---|---|
`
