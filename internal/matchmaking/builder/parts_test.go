package builder_test

import (
	"cmp"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/builder"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
)

// TestEveryPartIsBuilt builds queues of every kind there is.
func TestEveryPartIsBuilt(t *testing.T) {
	t.Parallel()
	build := builder.Builder(slog.New(slog.DiscardHandler), nil)
	fields := map[string]matchmaking.Fields{ // the others send whole tickets to a service
		"least": matchmaking.FieldsMatching, "evaluator": matchmaking.FieldsMatching,
		"criteria": matchmaking.FieldsSearch,
	}
	for name, definition := range map[string]string{
		"least":     `{}`,
		"criteria":  `{"match":{"function":"criteria"},"profile":{"pools":[{"name":"a"}]}}`,
		"a judge":   `{"evaluator":{"kind":"grpc","url":"http://127.0.0.1:1"}}`,
		"http":      `{"match":{"function":"http","url":"http://127.0.0.1:1"},"evaluator":{"kind":"http","url":"http://127.0.0.1:1"}}`,
		"grpc":      `{"match":{"function":"grpc","url":"http://127.0.0.1:1"},"evaluator":{"kind":"grpc","url":"http://127.0.0.1:1"}}`,
		"webhook":   `{"assigner":{"kind":"webhook","url":"http://127.0.0.1:1","secret":"s"}}`,
		"evaluator": `{"evaluator":{"kind":"` + callout.EvaluatorHTTP + `","url":"http://127.0.0.1:1"}}`,
	} {
		d, err := matchmaking.ParseDefinition("q", []byte(definition))
		require.NoError(t, err, name)
		built, err := build(d)
		require.NoError(t, err, name)
		require.NotNil(t, built.Matcher, name)
		require.NotNil(t, built.Evaluator, name)
		require.NotNil(t, built.Assigner, name)
		require.Equal(t, cmp.Or(fields[name], matchmaking.FieldsAll), built.Fields, name)
	}
	d, err := matchmaking.ParseDefinition("q",
		[]byte(`{"assigner":{"kind":"webhook","url":"http://127.0.0.1:1","secretFile":"missing"}}`))
	require.NoError(t, err)
	_, err = build(d)
	var clientErr *fault.Error
	require.ErrorAs(t, err, &clientErr)
	require.Equal(t, "assigner.secretFile", clientErr.Field)
	require.Equal(t, fault.SlugInvalidQueue, clientErr.Slug)
}

// TestTargetsOfQueuesAtRunTime: each part restricts the targets of queues defined at run time, and of no configured
// ones.
func TestTargetsOfQueuesAtRunTime(t *testing.T) {
	t.Parallel()
	targets, err := jsonhttp.ParseTargets([]string{"fn.example:9000"})
	require.NoError(t, err)
	build := builder.Builder(slog.New(slog.DiscardHandler), targets)
	for field, definition := range map[string]string{
		"match.url":     `{"match":{"function":"http","url":"URL"}}`,
		"evaluator.url": `{"evaluator":{"kind":"grpc","url":"URL"}}`,
		"assigner.url":  `{"assigner":{"kind":"webhook","url":"URL","secret":"s"}}`,
	} {
		for _, kinds := range [][2]string{{"http", "grpc"}, {"grpc", "http"}, {"webhook", "agones"}} {
			text := strings.Replace(definition, `"`+kinds[0]+`"`, `"`+kinds[1]+`"`, 1)
			for url, allowed := range map[string]bool{"http://fn.example:9000/f": true, "http://127.0.0.1:1": false,
				"http://u:p@fn.example:9000": false} {
				d, err := matchmaking.ParseDefinition("q", []byte(strings.Replace(text, "URL", url, 1)))
				require.NoError(t, err)
				_, err = build(d)
				require.NoError(t, err, "%s of the configuration", url)
				d.RunTime = true
				_, err = build(d)
				require.Equal(t, allowed, err == nil, "%s: %v", text, err)
				var clientErr *fault.Error
				if err != nil {
					require.ErrorAs(t, err, &clientErr)
					require.Equal(t, field, clientErr.Field)
					require.Equal(t, fault.SlugInvalidQueue, clientErr.Slug)
				}
			}
		}
	}
}
