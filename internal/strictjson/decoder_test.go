package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// decodeDocument does by hand what Unmarshal does with a document. Members in except are refused.
func decodeDocument(text []byte, into *document, except ...string) error {
	known := []string{"name", "count", "factor", "on", "at", "life", "tags", "weights", "parts", "own", "kept",
		"common"}
	known = slices.DeleteFunc(known, func(name string) bool { return slices.Contains(except, name) })
	return strictjson.Decode(text, func(d *strictjson.Decoder) error {
		return d.Object(known, func(name string) (err error) {
			switch name {
			case "name":
				into.Name, err = d.String()
			case "count":
				into.Count, err = d.Int()
			case "factor":
				into.Factor, err = d.Float()
			case "on":
				into.On, err = read(d, `must be true or false, not a string`,
					func(text []byte) (bool, error) { return strconv.ParseBool(string(text)) })
			case "at":
				into.At, err = read(d, `must be a time, such as "2006-01-02T15:04:05Z"`,
					func(text []byte) (time.Time, error) { return time.Parse(`"`+time.RFC3339+`"`, string(text)) })
			case "life":
				into.Life, err = lifeOf(d)
			case "tags":
				into.Tags, err = strictjson.List(d, (*strictjson.Decoder).String)
			case "weights":
				into.Weights, err = strictjson.Map(d, (*strictjson.Decoder).Float)
			case "parts":
				into.Parts, err = strictjson.List(d, partOf)
			case "own":
				into.Own, err = strictjson.Map(d, raw)
			case "kept":
				into.Kept, err = raw(d)
			case "common":
				into.Common, err = d.String()
			}
			return err
		})
	})
}

// read reads a value with parse, whose error is replaced by refusal.
func read[T any](d *strictjson.Decoder, refusal string, parse func([]byte) (T, error)) (T, error) {
	text, err := d.Raw()
	if err != nil {
		return *new(T), err
	}
	value, err := parse(text)
	if err != nil {
		return value, d.Refuse(errors.New(refusal))
	}
	return value, nil
}

func lifeOf(d *strictjson.Decoder) (l life, err error) {
	text, err := d.String()
	if err != nil {
		return 0, err
	}
	if err := l.UnmarshalText([]byte(text)); err != nil {
		return 0, d.Refuse(err)
	}
	return l, nil
}

func partOf(d *strictjson.Decoder) (part, error) {
	var p part
	err := d.Object([]string{"id"}, func(string) (err error) {
		p.ID, err = d.String()
		return err
	})
	return p, err
}

func raw(d *strictjson.Decoder) (json.RawMessage, error) {
	value, err := d.Raw()
	return bytes.Clone(value), err
}

func TestDecode(t *testing.T) {
	t.Parallel()
	var byHand, byReflection document
	require.NoError(t, decodeDocument(complete, &byHand))
	require.NoError(t, strictjson.Unmarshal(complete, &byReflection))
	require.Equal(t, byReflection, byHand)
}

func TestRaw(t *testing.T) {
	t.Parallel()
	text := []byte(` [ [ null, "\ud83d" ] , 2] `)
	var values [][]byte
	require.NoError(t, strictjson.Decode(text, func(d *strictjson.Decoder) (err error) {
		require.True(t, d.IsArray())
		require.False(t, d.IsString())
		values, err = strictjson.List(d, (*strictjson.Decoder).Raw)
		return err
	}))
	require.Equal(t, [][]byte{[]byte(`[ null, "\ud83d" ]`), []byte("2")}, values)
	require.Equal(t, len(values[0]), cap(values[0]), "appending to a value must not reach into the text")
	values[0][0] = '#'
	require.Equal(t, byte('#'), text[3], "a value is part of the text")
}

func TestMissing(t *testing.T) {
	t.Parallel()
	var got *strictjson.Error
	require.ErrorAs(t, strictjson.Decode([]byte(`[{}, {"id":"a"}, { }]`), func(d *strictjson.Decoder) error {
		number := 0
		return d.Array(func() error {
			p, err := partOf(d)
			if number++; number == 3 && err == nil && p.ID == "" {
				err = d.Missing("id")
			}
			return err
		})
	}), &got)
	require.Equal(t, strictjson.Error{Reason: "is missing", Path: "[2].id", Pointer: "/2/id", Offset: 19}, *got)
}
