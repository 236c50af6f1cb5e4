package strictjson_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

func TestDoubles(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(strictjson.Doubles{"a": 1.5, "b": math.NaN(), "c": math.Inf(1), "d": math.Inf(-1)})
	require.NoError(t, err)
	require.Equal(t, `{"a":1.5,"b":"NaN","c":"Infinity","d":"-Infinity"}`, string(data))
	var got strictjson.Doubles
	require.NoError(t, json.Unmarshal(data, &got))
	require.True(t, math.IsNaN(got["b"]))
	delete(got, "b")
	require.Equal(t, strictjson.Doubles{"a": 1.5, "c": math.Inf(1), "d": math.Inf(-1)}, got)
	for bad, want := range map[string]string{
		`{"a":"1"}`:   `a: must be a number, "NaN", "Infinity" or "-Infinity", not "1"`,
		`{"a":"nan"}`: `a: must be a number, "NaN", "Infinity" or "-Infinity", not "nan"`,
		`{"a":{}}`:    "a: must be a number, not an object",
		`{"a":null}`:  "a: must be a number, not null",
		`[]`:          "must be an object, not an array",
		`null`:        "must be an object, not null",
		`{"a":1e999}`: "a: 1e999 is too large for a double",
	} {
		require.EqualError(t, json.Unmarshal([]byte(bad), &got), want)
	}
}
