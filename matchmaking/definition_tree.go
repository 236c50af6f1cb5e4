package matchmaking

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxTreeDepth is deeper than any definition.
const maxTreeDepth = 8

// parseTree reads one JSON value as map[string]any, []any, text, json.Number, bool or nil. A key that is there twice is
// an error.
func parseTree(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	tree, err := parseValue(d, "", 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, InvalidQueue("", "the definition isn't one JSON value")
	}
	return tree, nil
}

func parseValue(d *json.Decoder, path string, depth int) (any, error) {
	token, err := d.Token()
	switch {
	case err != nil:
		return nil, InvalidQueue(path, "the definition isn't JSON: %v", err)
	case depth > maxTreeDepth:
		return nil, InvalidQueue(path, "%s: nested too deeply", path)
	}
	switch token {
	case json.Delim('{'):
		return parseObject(d, path, depth)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := parseValue(d, fmt.Sprintf("%s[%d]", path, len(list)), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, parseEnd(d, path)
	default:
		return token, nil
	}
}

func parseObject(d *json.Decoder, path string, depth int) (any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		key, isText := token.(string)
		if err != nil || !isText {
			return nil, InvalidQueue(path, "the definition isn't JSON: %v", err)
		}
		if _, twice := object[key]; twice {
			return nil, InvalidQueue(below(path, key), "%s: is there twice", below(path, key))
		}
		if object[key], err = parseValue(d, below(path, key), depth+1); err != nil {
			return nil, err
		}
	}
	return object, parseEnd(d, path)
}

func parseEnd(d *json.Decoder, path string) error {
	if _, err := d.Token(); err != nil {
		return InvalidQueue(path, "the definition isn't JSON: %v", err)
	}
	return nil
}

func below(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// treeReader fills a definition from a tree.
type treeReader struct {
	text bool // numbers and truths are text
}

func (r treeReader) read(tree any, d *Definition) error {
	return r.fill(reflect.ValueOf(d).Elem(), tree, "")
}

var (
	durationType = reflect.TypeFor[Duration]()
	timeType     = reflect.TypeFor[time.Time]()
)

// fill sets v from a tree. nil leaves v as it is.
func (r treeReader) fill(v reflect.Value, tree any, path string) error {
	switch {
	case tree == nil:
		return nil
	case v.Type() == durationType, v.Type() == timeType:
		return r.fillTime(v, tree, path)
	}
	switch v.Kind() {
	case reflect.Struct:
		return r.fillStruct(v, tree, path)
	case reflect.Slice:
		return r.fillSlice(v, tree, path)
	case reflect.Map:
		return r.fillMap(v, tree, path)
	default:
		return r.fillPlain(v, tree, path)
	}
}

func (r treeReader) fillStruct(v reflect.Value, tree any, path string) error {
	object, ok := tree.(map[string]any)
	if !ok {
		return wrongKind(path, tree, "an object")
	}
	fields := make(map[string]int, v.NumField())
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = i
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		i, known := fields[key]
		if !known || key == "-" {
			return InvalidQueue(below(path, key), "%s: there is no such key", below(path, key))
		}
		if err := r.fill(v.Field(i), object[key], below(path, key)); err != nil {
			return err
		}
	}
	return nil
}

func (r treeReader) fillSlice(v reflect.Value, tree any, path string) error {
	list, ok := tree.([]any)
	if !ok {
		return wrongKind(path, tree, "a list")
	}
	if len(list) == 0 {
		return nil
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i, item := range list {
		if err := r.fill(v.Index(i), item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

func (r treeReader) fillMap(v reflect.Value, tree any, path string) error {
	object, ok := tree.(map[string]any)
	if !ok {
		return wrongKind(path, tree, "an object")
	}
	if len(object) == 0 {
		return nil
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(object)))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		item := reflect.New(v.Type().Elem()).Elem()
		if err := r.fill(item, object[key], below(path, key)); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key), item)
	}
	return nil
}

func (r treeReader) fillTime(v reflect.Value, tree any, path string) error {
	text, ok := tree.(string)
	if v.Type() == durationType {
		d, err := time.ParseDuration(text)
		if !ok || err != nil {
			return wrongKind(path, tree, `a duration, such as "500ms" or "10m"`)
		}
		v.SetInt(int64(d))
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if !ok || err != nil {
		return wrongKind(path, tree, `a time, such as "2006-01-02T15:04:05Z"`)
	}
	v.Set(reflect.ValueOf(t.UTC()))
	return nil
}

// fillPlain sets text, a truth or a number.
func (r treeReader) fillPlain(v reflect.Value, tree any, path string) error {
	switch v.Kind() {
	case reflect.String:
		text, ok := tree.(string)
		if !ok {
			return wrongKind(path, tree, "text")
		}
		v.SetString(text)
	case reflect.Bool:
		truth, ok := tree.(bool)
		if text, isText := tree.(string); isText && r.text {
			truth, ok = text == "true", text == "true" || text == "false"
		}
		if !ok {
			return wrongKind(path, tree, "true or false")
		}
		v.SetBool(truth)
	case reflect.Int:
		n, err := strconv.Atoi(r.number(tree))
		if err != nil {
			return wrongKind(path, tree, "an integer")
		}
		v.SetInt(int64(n))
	default:
		f, err := strconv.ParseFloat(r.number(tree), 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return wrongKind(path, tree, "a finite number")
		}
		v.SetFloat(f)
	}
	return nil
}

// number gives the digits of a number, or what no number is read from.
func (r treeReader) number(tree any) string {
	switch tree := tree.(type) {
	case json.Number:
		return tree.String()
	case string:
		if r.text {
			return tree
		}
	}
	return ""
}

func wrongKind(path string, tree any, want string) error {
	if path == "" {
		return InvalidQueue("", "the definition isn't %s", want)
	}
	switch tree.(type) {
	case map[string]any, []any:
		return InvalidQueue(path, "%s: isn't %s", path, want)
	}
	return InvalidQueue(path, "%s: %q isn't %s", path, fmt.Sprint(tree), want)
}
