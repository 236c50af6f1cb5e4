package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/fault"
)

// object reads an object and calls member for each of its members. member reads the value.
func (d *decoder) object(what string, member func(name []byte) error) error {
	if err := d.beginObject(what); err != nil {
		return err
	}
	for {
		name, err := d.member()
		if err != nil || len(name) == 0 {
			return err
		}
		if err := member(name); err != nil {
			return err
		}
	}
}

// list reads an array, whose elements element reads. It is empty, and not nil, where the array is.
func list[T any](d *decoder, what string, element func() (T, error)) ([]T, error) {
	if kind := d.json.PeekKind(); kind != jsontext.KindBeginArray && kind != jsontext.KindInvalid {
		return nil, d.wrongType(what, "an array")
	}
	if _, err := d.json.ReadToken(); err != nil {
		return nil, d.refuse(err)
	}
	all := []T{}
	for d.json.PeekKind() != jsontext.KindEndArray {
		one, err := element()
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	_, err := d.json.ReadToken()
	return all, d.refuse(err)
}

// mapping reads an object whose members' names are anybody's, and whose values value reads. It is empty, and not nil,
// where the object is.
func mapping[T any](d *decoder, what string, value func() (T, error)) (map[string]T, error) {
	all := map[string]T{}
	err := d.object(what, func(name []byte) error {
		plain, err := d.unquote(name)
		if err != nil {
			return err
		}
		key := string(plain)
		all[key], err = value()
		return err
	})
	return all, err
}

// rawCopy reads a value of any type and gives a copy of the part of the body that it is.
func (d *decoder) rawCopy() (json.RawMessage, error) {
	v, err := d.value()
	return bytes.Clone(v), err
}

// notEmptyText reads a string that has something in it. instead says what to do where there is nothing.
func (d *decoder) notEmptyText(what, instead string) (string, error) {
	text, err := d.text(what)
	if err == nil && text == "" {
		err = d.input(fault.SlugInvalidTicket, "the "+what+" is empty: "+instead)
	}
	return text, err
}

// number reads a number that a double can hold.
func (d *decoder) number(what string) (float64, error) {
	if kind := d.json.PeekKind(); kind != jsontext.KindNumber && kind != jsontext.KindInvalid {
		return 0, d.wrongType(what, "a number")
	}
	v, err := d.value()
	if err != nil {
		return 0, err
	}
	number, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return 0, d.input(d.slug, fmt.Sprintf("%s is %.64s, which is too large for a double", what, v))
	}
	return number, nil
}

// double reads a number, or the text of one that JSON has no numeral for.
func (d *decoder) double() (float64, error) {
	const what = "a double argument"
	if d.json.PeekKind() != jsontext.KindString {
		return d.number(what)
	}
	text, err := d.text(what)
	if err != nil {
		return 0, err
	}
	if !isSpecial(text) {
		return 0, d.input(d.slug, fmt.Sprintf(`%s must be a number, "NaN", "Infinity" or "-Infinity", it is %.64q`, what, text))
	}
	return strconv.ParseFloat(text, 64)
}

// integer reads a number without a fraction.
func (d *decoder) integer(what string) (int, error) {
	if kind := d.json.PeekKind(); kind != jsontext.KindNumber && kind != jsontext.KindInvalid {
		return 0, d.wrongType(what, "an integer")
	}
	v, err := d.value()
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(v))
	if err != nil {
		return 0, d.input(d.slug, fmt.Sprintf("%s must be an integer, it is %.64s", what, v))
	}
	return n, nil
}
