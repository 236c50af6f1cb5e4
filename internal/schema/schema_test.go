package schema_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/followers"
	"github.com/tidemark-dev/tidemark/internal/schema"
)

// source is the message of the source.
const source = `{"type":"notification_type","user_id":123,"entity_type":"shout","entity_id":456,"action":"created","data":{"title":"Заголовок","author":"Автор"},"timestamp":1640995200}`

const errNumber = "a number of more than 350 digits, or with an exponent of more than 350"

func TestNotification(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile(followers.Schema())
	require.NoError(t, err)
	for change, want := range map[string][2]string{
		"":                                  {},
		`"user_id":123→"user_id":"ann"`:     {},
		`456→{"a":1}`:                       {"/entity_id", "got object, want integer"},
		`"created"→"read"`:                  {"/action", "value must be one of 'created', 'updated', 'deleted'"},
		`"data":{→"data":[],"x":{`:          {"/data", "got array, want object"},
		`"user_id":123,→`:                   {"/user_id", "missing property 'user_id'"},
		`"timestamp"→"a/b":1,"timestamp"`:   {"/a~1b", "additional properties 'a/b' not allowed"},
		`1640995200→-1`:                     {"/timestamp", "minimum: got -1, want 0"},
		`1640995200→1e999999999`:            {"/timestamp", errNumber},
		`1640995200→1E-9223372036854775808`: {"/timestamp", errNumber},
		`123→1` + strings.Repeat("0", 350):  {"/user_id", errNumber},
		`"Автор"→[0,{"a/b":1e351}]`:         {"/data/author/1/a~1b", errNumber},
		`123→1.2e2`:                         {},
		source + `→"text"`:                  {"", "got string, want object"},
		source + `→{`:                       {"", "unexpected EOF"},
	} {
		from, to, _ := strings.Cut(change, "→")
		field, err := s.Check([]byte(strings.Replace(source, from, to, 1)))
		if want[1] == "" {
			require.NoError(t, err, change)
			continue
		}
		require.EqualError(t, err, want[1], change)
		require.Equal(t, want[0], field, change)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "schema.json")
	for text, want := range map[string]string{
		`{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"maximum":3}}}`: "",
		`{"properties":{"n":{"$ref":"https://example.com/schema.json"}}}`:                       "may only refer to itself",
		`{"$ref":"file:///etc/passwd"}`:                                                         "may only refer to itself",
		`{"$schema":"https://example.com/meta"}`:                                                "may only refer to itself",
		`{"$ref":"#/nothing"}`:                                                                  "",
		`{"type":"nothing"}`:                                                                    "",
		`{`:                                                                                     "EOF",
		strings.Repeat(`{"not":`, 33):                                                           "32 levels",
		strings.Repeat(" ", 64<<10) + "{}":                                                      "65536 bytes",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		s, err := schema.Open(file)
		if want == "" && err == nil {
			field, err := s.Check([]byte(`{"n":4}`))
			require.EqualError(t, err, "maximum: got 4, want 3")
			require.Equal(t, "/n", field)
			continue
		}
		require.ErrorContains(t, err, want, text)
	}
	_, err := schema.Open(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A recursive schema terminates, and long values don't cause long errors.
func TestHostileContent(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "schema.json")
	for text, content := range map[string]string{
		`{"$ref":"#"}`: `1`,
		`{"properties":{"a":{"$ref":"#"}},"additionalProperties":false}`: strings.Repeat(`{"a":`, 2000) + `{"é":1}` +
			strings.Repeat("}", 2000),
		`{"additionalProperties":false}`: `{"` + strings.Repeat("é", 10_000) + `":1}`,
		`{"pattern":"^(a+)+$"}`:          `"` + strings.Repeat("a", 50_000) + `b"`,
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		s, err := schema.Open(file)
		require.NoError(t, err)
		field, err := s.Check([]byte(content))
		require.Error(t, err)
		require.LessOrEqual(t, len(field)+len(err.Error()), 500)
		require.True(t, utf8.ValidString(field+err.Error()))
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(source)
	f.Add(`{"data":{"a":[1]},"user_id":1.5}`)
	notification, err := schema.Compile(followers.Schema())
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, content string) {
		if field, err := notification.Check([]byte(content)); err != nil {
			require.True(t, field == "" || field[0] == '/', field)
		}
	})
}
