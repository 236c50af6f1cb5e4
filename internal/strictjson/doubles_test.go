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
	for _, bad := range []string{`{"a":"1"}`, `{"a":"nan"}`, `{"a":{}}`, `[]`, `{"a":1e999}`} {
		require.Error(t, json.Unmarshal([]byte(bad), &got), bad)
	}
}
