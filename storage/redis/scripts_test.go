package redis

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
)

// goFiles parses the package without its tests.
func goFiles(t testing.TB) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	files := map[string]*ast.File{}
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			files[name], err = parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
		}
	}
	return files
}

// knownStatuses returns the statuses that the files for replies name.
func knownStatuses(t testing.TB) []string {
	t.Helper()
	var found []string
	for name, file := range goFiles(t) {
		if !strings.HasSuffix(name, "reply.go") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && statusLiteral.MatchString(literal.Value) {
				found = append(found, strings.Trim(literal.Value, `"`))
			}
			return true
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}

var statusLiteral = regexp.MustCompile(`^"[A-Z_]+"$`)

// TestStatusesAreKnown holds that the stores know each status that a script returns, and no other.
func TestStatusesAreKnown(t *testing.T) {
	t.Parallel()
	var returned []string
	for _, f := range luatest.Scripts(t, "channels", "queues") {
		returned = append(returned, f.Statuses()...)
	}
	slices.Sort(returned)
	require.Equal(t, slices.Compact(returned), knownStatuses(t))
}

// callerOf are methods that aren't named as their operation's script.
var callerOf = map[string]string{
	"open":   "Reserve",
	"queue":  "Describe", // there is describe.lua, for channels
	"define": "PutDefinition", "takeover": "TakeOver",
}

// TestEachScriptHasOneCaller holds that an operation's script is run by the store's method of that name, and by no
// other exported function.
func TestEachScriptHasOneCaller(t *testing.T) {
	t.Parallel()
	callers := map[string][]string{}
	for _, file := range goFiles(t) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if ok && strings.HasSuffix(id.Name, "Script") && id.Name != "codeNoScript" && !slices.Contains(callers[id.Name], f.Name.Name) {
					callers[id.Name] = append(callers[id.Name], f.Name.Name)
				}
				return true
			})
		}
	}
	want := map[string][]string{}
	for _, f := range luatest.Scripts(t, "channels", "queues") {
		want[f.Stem()+"Script"] = []string{cmp.Or(callerOf[f.Stem()], strings.ToUpper(f.Stem()[:1])+f.Stem()[1:])}
	}
	require.Equal(t, want, callers)
}

// replyOf gives what a script answers that returns a Lua value.
func replyOf(t *testing.T, value string) (Reply, error) {
	t.Helper()
	return NewReply("test", redistest.Standalone(t).Do(t, "EVAL", "return "+value, "0"))
}

// decoders decode a reply to each operation, and give only the error.
var decoders = map[string]func(*testing.T, Reply) error{
	"publish": func(_ *testing.T, r Reply) error {
		_, err := decodePublished(r, make([]channel.Draft, 2))
		return err
	},
	"subscribe":   func(_ *testing.T, r Reply) error { _, err := subscription(r); return err },
	"open":        func(_ *testing.T, r Reply) error { _, err := owner(r); return err },
	"unsubscribe": func(_ *testing.T, r Reply) error { return refusals.Check(r, OK, statusNoSubscriber) },
	"ack":         func(_ *testing.T, r Reply) error { return refusals.Check(r, OK, statusStale) },
	"describe":    func(_ *testing.T, r Reply) error { _, err := description(r); return err },
	"fetch": func(t *testing.T, r Reply) error {
		s, _ := openStandalone(t)
		_, err := s.batch(t.Context(), r)
		return err
	},
}

func TestRepliesThatAreRight(t *testing.T) {
	t.Parallel()
	epoch := "'" + someEpoch + "'"
	for operation, values := range map[string][]string{
		"publish":     {`{'OK', '1', 0, '-9007199254740991', 1}`},
		"subscribe":   {`{'CREATED', ` + epoch + `, '0'}`, `{'EXISTS', ` + epoch + `, '-5'}`},
		"open":        {`{'OK', ` + epoch + `, 'duel'}`},
		"unsubscribe": {`{'OK'}`, `{'NO_SUBSCRIBER'}`},
		"ack":         {`{'OK'}`, `{'STALE'}`},
		"describe":    {`{'OK', ` + epoch + `, '5', 1, -1, 0, '0', {}}`, `{'OK', ` + epoch + `, '5', 1, 4, 2, '18446744073709551615', {'a', '1', 'b', '2'}}`},
		"fetch": {
			`{'OK', ` + epoch + `, '0', '5', '5', '5', {}}`,
			`{'OK', ` + epoch + `, '0', '1', '1', '0', {'1', '{"id":"a","content":1,"at":5}'}}`,
		},
	} {
		for _, value := range values {
			r, err := replyOf(t, value)
			require.NoError(t, err)
			require.NoError(t, decoders[operation](t, r), "%s: %s", operation, value)
		}
	}
}

func TestRepliesThatAreWrongAreRefused(t *testing.T) {
	t.Parallel()
	epoch := "'" + someEpoch + "'"
	for operation, values := range map[string][]string{
		"publish": {
			`{'OK'}`, `{'OK', '1', 0}`, `{'OK', '1', 0, '2'}`, `{'OK', '1', 0, '2', 0, 0}`, `{'OK', '1', 0, '2', 'x'}`,
			`{'OK', 'x', 0, '2', 0}`, `{'OK', '1', {}, '2', 0}`, `{'OK', 1, 0, '2', 0}`, `{'OK', '9007199254740992', 0, '2', 0}`,
			`{'OK', false, 0, '2', 0}`, `{'STALE', '1', 0, '2', 0}`, `{'CREATED'}`,
		},
		"subscribe": {
			`{'CREATED'}`, `{'CREATED', ` + epoch + `}`, `{'CREATED', ` + epoch + `, '0', ''}`,
			`{'EXISTS', ` + epoch + `, 'x'}`, `{'EXISTS', 'x', '0'}`, `{'EXISTS', '', '0'}`, `{'EXISTS', {}, '0'}`,
			`{'EXISTS', ` + epoch + `, {}}`, `{'OK', ` + epoch + `, '0'}`,
		},
		"open": {
			`{'OK'}`, `{'OK', ` + epoch + `}`, `{'OK', 'x', 'duel'}`, `{'OK', ` + epoch + `, {}}`, `{'OK', ` + epoch + `, 'duel', 1}`,
			`{'CREATED', ` + epoch + `, 'duel'}`,
		},
		"unsubscribe": {`{'OK', 'x'}`, `{'STALE'}`, `{'CREATED'}`},
		"ack":         {`{'OK', 'x'}`, `{'STALE', '1'}`, `{'EXISTS'}`},
		"describe": {
			`{'OK'}`, `{'OK', ` + epoch + `, '5', 1, -1, 0, '0'}`, `{'OK', ` + epoch + `, '5', 1, -1, 0, '0', 'x'}`,
			`{'OK', ` + epoch + `, '5', 'x', -1, 0, '0', {}}`, `{'OK', ` + epoch + `, '5', 1, -1, 'x', '0', {}}`,
			`{'OK', ` + epoch + `, '5', 1, -1, 0, '-1', {}}`, `{'OK', ` + epoch + `, '5', 1, -1, 0, {}, {}}`,
			`{'OK', ` + epoch + `, '5', 1, -1, 0, '0', {'a'}}`, `{'OK', ` + epoch + `, '5', 1, -1, 0, '0', {'a', 'b'}}`,
			`{'OK', ` + epoch + `, '5', 1, -1, 0, '0', {}, 1}`, `{'OK', 'x', '5', 1, -1, 0, '0', {}}`, `{'EXISTS'}`,
		},
		"fetch": {
			`{'OK'}`, `{'OK', ` + epoch + `, '0', '5', '5', '5'}`, `{'OK', ` + epoch + `, '0', '5', '5', '5', 'x'}`,
			`{'OK', ` + epoch + `, '0', '5', '5', '5', {'1'}}`, `{'OK', ` + epoch + `, '0', '5', '5', '5', {'x', '{}'}}`,
			`{'OK', ` + epoch + `, '0', '5', '5', '5', {'1', {}}}`, `{'OK', ` + epoch + `, '0', '5', '5', 'x', {}}`,
			`{'OK', ` + epoch + `, '0', '5', '5', '5', {}, {}}`, `{'OK', 'x', '0', '5', '5', '5', {}}`, `{'STALE'}`,
		},
	} {
		for _, value := range append(values, `{'WHAT'}`, `{'ok'}`, `{''}`) {
			r, err := replyOf(t, value)
			require.NoError(t, err, value)
			err = decoders[operation](t, r)
			require.ErrorIs(t, err, ErrReply, "%s: %s", operation, value)
			var told *fault.Error
			require.ErrorAs(t, err, &told, "%s: %s", operation, value)
			require.Equal(t, fault.Internal, told.Kind)
		}
	}
	for _, value := range []string{`{}`, `{1}`, `{{}}`, `{false}`} {
		_, err := replyOf(t, value)
		require.ErrorIs(t, err, ErrReply, value)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]error{
		"NO_CHANNEL": channel.ErrNoChannel, "NO_SUBSCRIBER": channel.ErrNoSubscriber, "EPOCH": channel.ErrReceiptEpoch,
		"AHEAD": channel.ErrReceiptAhead, "SUPERSEDED": channel.ErrReceiptSuperseded, "LIFE": channel.ErrLaterLife,
	} {
		r, err := replyOf(t, "{'"+value+"'}")
		require.NoError(t, err)
		require.ErrorIs(t, refusals.Error(r), want)
	}
	r, err := replyOf(t, "{'AHEAD'}")
	require.NoError(t, err)
	_, err = subscription(r)
	require.ErrorIs(t, err, channel.ErrClockAhead, "what AHEAD means depends on who asked")
}
