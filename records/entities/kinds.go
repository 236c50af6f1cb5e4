package entities

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/records"
)

// ErrInvalidQuery is the error of an ID that is not valid for a search or a list.
var ErrInvalidQuery = &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidID, Field: "id",
	Detail: "it is no search and no list"}

func invalid(format string, args ...any) error {
	e := *ErrInvalidQuery
	e.Detail = fmt.Sprintf(format, args...)
	return &e
}

// Kind is a kind of value in the cache.
type Kind struct {
	*records.Kind

	// JSON reports whether values are JSON. Others are plain text.
	JSON bool

	canonical func(id string) (string, error)
	check     func(value []byte) error
	tags      func(id string) []string // nil: none
}

// Kinds has all kinds of values.
var Kinds = []Kind{
	{records.Author, true, plainID, object[Author], nil},
	{records.AuthorSlug, false, plainID, checkID, nil},
	{records.AuthorFollowers, true, plainID, array[[]ID], nil},
	{records.AuthorFollowsTopics, true, plainID, array[[]ID], nil},
	{records.AuthorFollows, true, plainID, array[[]ID], nil},
	{records.AuthorFollowsShouts, true, plainID, array[[]ID], nil},
	{records.Topic, true, plainID, object[Topic], nil},
	{records.TopicSlug, true, plainID, object[Topic], nil},
	{records.TopicAuthors, true, plainID, array[[]ID], nil},
	{records.TopicFollowers, true, plainID, array[[]ID], nil},
	{records.ShoutFollowers, true, plainID, array[[]ID], nil},
	{records.Shouts, true, CanonicalListID, array[Shouts], listTags},
	{records.TopicShouts, true, plainID, array[Shouts], topicTags},
	{records.Search, true, CanonicalSearchID, object[Results], nil},
}

// ErrNoKind is the error of a name that isn't a kind of cached value.
var ErrNoKind = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoKind, Detail: "the cache has no kind of this name"}

// Find returns the kind with a name, such as author. Errors: ErrNoKind.
func Find(name string) (*Kind, error) {
	for i := range Kinds {
		if Kinds[i].Name == name {
			return &Kinds[i], nil
		}
	}
	return nil, ErrNoKind
}

// ID returns the ID under which the cache stores the value: the canonical ID of a search or a list, otherwise id.
// Errors: those with fault.SlugInvalidID.
func (k *Kind) ID(id string) (string, error) { return k.canonical(id) }

// Prefixes reports whether values can be invalidated by the beginning of their ID: lists and searches, which have short
// TTLs.
func (k *Kind) Prefixes() bool { return k.TTL > 0 }

// Tags returns the automatic tags of the value of an ID: a list of publications of a topic has topic:<ID>, one of an
// author author:<ID>.
func (k *Kind) Tags(id string) []string {
	if k.tags == nil {
		return nil
	}
	return k.tags(id)
}

func topicTags(id string) []string { return []string{"topic:" + id} }

func listTags(id string) (tags []string) {
	if isHash(id) {
		return nil
	}
	parameters, err := parse(id, true)
	if err != nil {
		return nil // impossible: the ID is canonical
	}
	for _, name := range []string{"author", "topic"} {
		for _, value := range parameters[name] {
			if tag := name + ":" + value; len(tags) < maxOwnTags && records.CheckID("tag", tag) == nil {
				tags = append(tags, tag)
			}
		}
	}
	return tags
}

// maxOwnTags is the maximum number of automatic tags of a value.
const maxOwnTags = 8

// Check refuses a value that is larger than values of the kind may be, or doesn't have their form. Members that the
// source doesn't have are allowed. Errors: fault.SlugValueTooLarge, fault.SlugInvalidValue.
func (k *Kind) Check(value []byte) error {
	if len(value) > k.MaxBytes {
		return &fault.Error{
			Kind: fault.TooLarge, Slug: fault.SlugValueTooLarge,
			Detail: fmt.Sprintf("the value has %d bytes, one of the kind %s at most %d", len(value), k.Name,
				k.MaxBytes),
		}
	}
	if err := k.check(value); err != nil {
		return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidValue,
			Detail: "the value isn't one of the kind " + k.Name + ": " + explain(err)}
	}
	return nil
}

func plainID(id string) (string, error) { return id, records.CheckID("id", id) }

func checkID(value []byte) error { return records.CheckID("it", string(value)) }

// object checks the JSON of an object that T is decoded from.
func object[T any](value []byte) error { return decodes[T](value, '{', "an object") }

// array checks the JSON of an array that T is decoded from.
func array[T any](value []byte) error { return decodes[T](value, '[', "an array") }

func decodes[T any](value []byte, first byte, what string) error {
	if text := bytes.TrimLeft(value, " \t\r\n"); len(text) == 0 || text[0] != first {
		return errors.New("it must be " + what)
	}
	return json.Unmarshal(value, new(T))
}

// explain returns the problem with a value, without names of Go types.
func explain(err error) string {
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("it isn't JSON at byte %d", syntax.ByteOffset)
	case errors.As(err, &semantic):
		return fmt.Sprintf("%.128s has a wrong form", printable(semantic.JSONPointer))
	}
	return err.Error()
}

func printable(p jsontext.Pointer) string {
	if !utf8.ValidString(string(p)) {
		return "a member"
	}
	return fmt.Sprintf("%q", string(p))
}
