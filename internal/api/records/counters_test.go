package records_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

func TestCountersThatAreRefused(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	many := `"` + strings.Join(strings.Fields(strings.Repeat("x ", 65)), `","`) + `"`
	for _, tt := range []struct {
		method, path, body string
		status             int
		slug               fault.Slug
		field              string
	}{
		{"POST", "/v1/views/%0A", "", 400, fault.SlugInvalidID, "id"},
		{"POST", "/v1/views/_timestamp", "", 400, fault.SlugInvalidID, "id"},
		{"POST", "/v1/views/7", `{"views":-1}`, 400, fault.SlugInvalidAmount, "/views"},
		{"POST", "/v1/views/7", `{"views":1000001}`, 400, fault.SlugInvalidAmount, "/views"},
		{"POST", "/v1/views/7", `{"views":9223372036854775808}`, 400, fault.SlugInvalidBody, "/views"},
		{"POST", "/v1/views/7", `{"views":1.5}`, 400, fault.SlugInvalidBody, "/views"},
		{"POST", "/v1/views", `{"views":{}}`, 400, fault.SlugInvalidAmount, "/views"},
		{"POST", "/v1/views", `{"views":{"_total":1}}`, 400, fault.SlugInvalidID, "/views"},
		{"GET", "/v1/views", "", 400, fault.SlugInvalidAmount, "id"},
		{"GET", "/v1/views?id=", "", 400, fault.SlugInvalidID, "id"},
		{"GET", "/v1/views?slug=%00", "", 400, fault.SlugInvalidID, "slug"},
		{"GET", "/v1/views?ids=7", "", 400, fault.SlugInvalidQuery, "ids"},
		{"GET", "/v1/views?id=7" + strings.Repeat("&id=7", 256), "", 400, fault.SlugInvalidAmount, "id"},
		{"POST", "/v1/views/import", `{"timestamp":0,"total":1,"views":{"7":1}}`, 400, fault.SlugInvalidImport,
			"/timestamp"},
		{"POST", "/v1/views/import", `{"timestamp":1,"total":1,"views":{"7":1,"8":1}}`, 400, fault.SlugInvalidImport,
			"/total"},
		{"POST", "/v1/views/import", `{"timestamp":1,"total":500001,"views":{"7":1}}`, 400, fault.SlugInvalidImport,
			"/total"},
		{"POST", "/v1/views/import", `{"timestamp":1,"total":2,"views":{"_total":1}}`, 400, fault.SlugInvalidID,
			"/views"},
		{"POST", "/v1/views/slugs", `{"slugs":{"a":"_total"}}`, 400, fault.SlugInvalidID, "/slugs"},
		{"PATCH", "/v1/states/a/b", `{}`, 400, fault.SlugInvalidState, "/fields"},
		{"PATCH", "/v1/states/a/b", `{"fields":{"a":1}}`, 400, fault.SlugInvalidBody, "/fields/a"},
		{"PATCH", "/v1/states/a/b", `{"fields":{"":"x"}}`, 400, fault.SlugInvalidID, "/fields"},
		{"PATCH", "/v1/states/a/b", `{"remove":[` + many + `]}`, 413, fault.SlugManyFields, ""},
		{"PUT", "/v1/states/a/b", `{"fields":{"a":"b"},"ttl":"61m"}`, 400, fault.SlugInvalidState, "/ttl"},
		{"PUT", "/v1/states/a/%7F", `{"fields":{"a":"b"}}`, 400, fault.SlugInvalidID, "id"},
		{"POST", "/v1/stats/a/daily", `{"fields":{}}`, 400, fault.SlugInvalidAmount, "/fields"},
		{"POST", "/v1/stats/a/daily", `{"fields":{"a":9007199254740992}}`, 400, fault.SlugInvalidAmount, "/fields"},
		{"POST", "/v1/stats/a/daily", `{"fields":{"a":1},"id":"\n"}`, 400, fault.SlugInvalidID, "/id"},
		{"POST", "/v1/stats/a/daily:0", `{"fields":{"a":1}}`, 400, fault.SlugInvalidTimeframe, "timeframe"},
		{"PUT", "/v1/metrics/%0A/daily", `{"value":1}`, 400, fault.SlugInvalidID, "name"},
		{"PUT", "/v1/metrics/a/daily", `{}`, 400, fault.SlugInvalidBody, "/value"},
		{"POST", "/v1/metrics/a/daily", `{"id":"x"}`, 400, fault.SlugInvalidBody, "/add"},
		{"GET", "/v1/metrics/a/daily?from=yesterday", "", 400, fault.SlugInvalidQuery, "from"},
		{"GET", "/v1/stats/a/daily?from=2020-01-02T00:00:00Z&to=2020-01-01T00:00:00Z", "", 400, fault.SlugInvalidQuery,
			"to"},
	} {
		p := h.Do(tt.method, tt.path, tt.body).Problem(tt.status, tt.slug)
		require.Equal(t, tt.field, p.Field, "%s %s %s", tt.method, tt.path, tt.body)
	}
}

// TestCountersOfOthers: a call for many objects needs permission for each.
func TestCountersOfOthers(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "ann", `[{"actions":["read","write"],"records":["views/1","views/2"]}]`)
	p.Add(t, "root", `[{"actions":["read","write"],"records":["views", "views/*"]}]`)
	ann, root := servertest.Bearer("ann"), servertest.Bearer("root")
	h.Do("POST", "/v1/views", `{"views":{"1":1,"2":1}}`, ann).Expect(202, `{"views":{"1":1,"2":1}}`)
	h.Do("POST", "/v1/views", `{"views":{"1":1,"3":1}}`, ann).Problem(403, fault.SlugNotGranted)
	h.Do("POST", "/v1/views/slugs", `{"slugs":{"one":"1","three":"3"}}`, root).With(204)
	h.Do("GET", "/v1/views?id=2&slug=one", "", ann).With(200)
	for _, query := range []string{"id=3", "id=1&id=3", "slug=three"} {
		h.Do("GET", "/v1/views?"+query, "", ann).Problem(403, fault.SlugNotGranted)
	}
	for _, path := range []string{"/v1/views/import", "/v1/views/slugs"} {
		h.Do("POST", path, "{}", ann).Problem(403, fault.SlugNotGranted)
	}
	require.Eventually(t, func() bool {
		found := servertest.Decode[wire.ViewsList](h.Do("GET", "/v1/views?id=1&id=3", "", root).With(200))
		return found.Views[0].Total == 1 && found.Views[1].Total == 0
	}, servertest.Patience, servertest.Step, "what was refused counts nothing")
}
