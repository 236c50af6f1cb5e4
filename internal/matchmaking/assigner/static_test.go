package assigner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

func TestStaticFillsItsTemplate(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"":                              "",
		"127.0.0.1:7777":                "127.0.0.1:7777",
		"{match}":                       "match-1",
		"wss://{queue}.example/{match}": "wss://duel.example/match-1",
		"{match}/{match}":               "match-1/match-1",
		"{{{match}}}":                   "{match-1}",
		"{{match}}":                     "{match}",
		"a}}b":                          "a}b",
	} {
		a := build(t, matchmaking.AssignBy{Kind: matchmaking.AssignStatic, Connection: template})
		given, err := a.Allocate(t.Context(), proposal())
		require.NoError(t, err)
		require.Equal(t, matchmaking.Allocation{Connection: want}, given, template)
		require.NoError(t, a.Release(t.Context(), "match-1", given))
	}
}

func TestStaticRefusesTemplatesItCannotFill(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"{region}.example": "assigner.connection: unknown placeholder {region}: only {match} and {queue} exist",
		"{}":               "assigner.connection: unknown placeholder {}: only {match} and {queue} exist",
		"{Match}":          "assigner.connection: unknown placeholder {Match}: only {match} and {queue} exist",
		"a{match":          `assigner.connection: single brace at "{match": write {{ or }} for a brace`,
		"a}b":              `assigner.connection: single brace at "}b": write {{ or }} for a brace`,
		"{a{match}":        `assigner.connection: single brace at "{a{match}": write {{ or }} for a brace`,
	} {
		_, err := New(matchmaking.Definition{Assigner: matchmaking.AssignBy{Kind: matchmaking.AssignStatic,
			Connection: template}}, nil)
		require.EqualError(t, err, want)
	}
}

func TestStaticCostsNothing(t *testing.T) { //nolint:paralleltest // testing.AllocsPerRun counts those of all goroutines
	a := build(t, matchmaking.AssignBy{Kind: matchmaking.AssignStatic, Connection: "127.0.0.1:7777"})
	p, ctx := proposal(), t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = a.Allocate(ctx, p) }))
}

func TestNewRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	_, err := New(matchmaking.Definition{Assigner: matchmaking.AssignBy{Kind: "carrier-pigeon"}}, nil)
	require.EqualError(t, err, `assigner.kind: "carrier-pigeon" is not static, webhook or agones`)
	for _, kind := range []matchmaking.AssignerKind{matchmaking.AssignWebhook, matchmaking.AssignAgones} {
		_, err = New(matchmaking.Definition{Assigner: matchmaking.AssignBy{Kind: kind}}, nil)
		require.EqualError(t, err, "assigner.url: missing URL")
		_, err = New(matchmaking.Definition{Assigner: matchmaking.AssignBy{Kind: kind, URL: "unix:///run/game"}}, nil)
		require.EqualError(t, err, `assigner.url: "unix:///run/game" is not an http:// or https:// URL`)
	}
}
