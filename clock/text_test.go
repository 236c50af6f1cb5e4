package clock_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/clock"
)

// texts are parsed by Parse and UnmarshalJSON alike.
var texts = []struct {
	text string
	want clock.Clock
	err  error
}{
	{"0", 0, nil},
	{"7", 7, nil},
	{"-1", -1, nil},
	{"100000000000000", 1e14, nil},
	{"-100000000000000", -1e14, nil},
	{"9007199254740990", clock.Max - 1, nil},
	{"9007199254740991", clock.Max, nil},
	{"-9007199254740991", clock.Min, nil},

	{"9007199254740992", 0, clock.ErrRange},
	{"-9007199254740992", 0, clock.ErrRange},
	{"9223372036854775807", 0, clock.ErrRange},
	{"-9223372036854775808", 0, clock.ErrRange},
	{"18446744073709551616", 0, clock.ErrRange},
	{"1" + strings.Repeat("0", 400), 0, clock.ErrRange},

	{"", 0, clock.ErrSyntax},
	{"-", 0, clock.ErrSyntax},
	{"-0", 0, clock.ErrSyntax},
	{"00", 0, clock.ErrSyntax},
	{"01", 0, clock.ErrSyntax},
	{"-01", 0, clock.ErrSyntax},
	{"+1", 0, clock.ErrSyntax},
	{"--1", 0, clock.ErrSyntax},
	{"1-", 0, clock.ErrSyntax},
	{"1.0", 0, clock.ErrSyntax},
	{"1.5", 0, clock.ErrSyntax},
	{"1e3", 0, clock.ErrSyntax},
	{"9.007199254741e+15", 0, clock.ErrSyntax},
	{"0x10", 0, clock.ErrSyntax},
	{"1_000", 0, clock.ErrSyntax},
	{"١", 0, clock.ErrSyntax},
	{"1\x00", 0, clock.ErrSyntax},
	{"null", 0, clock.ErrSyntax},
	{"true", 0, clock.ErrSyntax},
	{`"1"`, 0, clock.ErrSyntax},
	{"[1]", 0, clock.ErrSyntax},
	{"nan", 0, clock.ErrSyntax},
}

func TestParse(t *testing.T) {
	t.Parallel()
	// JSON allows space around a number, Parse doesn't.
	for _, s := range []string{" 1", "1 ", "1\n", "\t"} {
		_, err := clock.Parse(s)
		require.ErrorIs(t, err, clock.ErrSyntax, "%q", s)
	}
	for _, tt := range texts {
		t.Run(fmt.Sprintf("%.24q", tt.text), func(t *testing.T) {
			t.Parallel()
			c, err := clock.Parse(tt.text)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.want, c)
			if err != nil {
				require.Less(t, len(err.Error()), 120, "a long text isn't repeated")
			}
		})
	}
}

func TestUnmarshalJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range texts {
		t.Run(fmt.Sprintf("%.24q", tt.text), func(t *testing.T) {
			t.Parallel()
			body := struct{ Clock clock.Clock }{Clock: 42}
			err := json.Unmarshal([]byte(`{"Clock": `+tt.text+` }`), &body)
			if tt.err == nil {
				require.NoError(t, err)
				require.Equal(t, tt.want, body.Clock)
				return
			}
			require.Error(t, err)
			require.Equal(t, clock.Clock(42), body.Clock)
			if json.Valid([]byte(tt.text)) {
				require.ErrorIs(t, err, tt.err)
			}
		})
	}
}

func TestTextRoundTrip(t *testing.T) {
	t.Parallel()
	check(t, "Parse reads String", func(t *rapid.T) {
		c := clocks().Draw(t, "c")
		parsed, err := clock.Parse(c.String())
		require.NoError(t, err)
		require.Equal(t, c, parsed)
	})
	check(t, "JSON is the decimal number", func(t *rapid.T) {
		c := clocks().Draw(t, "c")
		data, err := json.Marshal(c)
		require.NoError(t, err)
		require.Equal(t, c.String(), string(data))
		var parsed clock.Clock
		require.NoError(t, json.Unmarshal(data, &parsed))
		require.Equal(t, c, parsed)
	})
}

// FuzzParse compares Parse with a parser of big integers: it accepts exactly
// those from Min to Max in their canonical form.
func FuzzParse(f *testing.F) {
	for _, tt := range texts {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := new(big.Int).SetString(s, 10)
		canonical := ok && n.String() == s
		inRange := canonical && n.IsInt64() && clock.Clock(n.Int64()).Valid()

		c, err := clock.Parse(s)
		switch {
		case err == nil:
			require.True(t, inRange, "%q", s)
			require.Equal(t, s, c.String())
		case errors.Is(err, clock.ErrRange):
			require.True(t, canonical && !inRange, "%q", s)
		default:
			require.ErrorIs(t, err, clock.ErrSyntax)
			require.False(t, canonical, "%q", s)
		}
	})
}
