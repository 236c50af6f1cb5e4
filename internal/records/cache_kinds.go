package records

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
)

// ErrInvalidQuery is the error of an ID that is not valid for a search or a list.
var ErrInvalidQuery = &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidID, Field: "id",
	Detail: "it is no search and no list"}

func invalidQuery(format string, args ...any) error {
	e := *ErrInvalidQuery
	e.Detail = fmt.Sprintf(format, args...)
	return &e
}

// Cached describes the values of a kind that are cached; other kinds have none.
type Cached struct {
	Values      string         // the form of values, such as text; "": json
	Schema      channel.Schema // of values that are JSON; nil: none
	IDs         string         // the form of IDs: plain, list or search; "": plain
	Prefixes    bool           // values can be invalidated by the beginning of their IDs
	Tags        []string       // names of automatic tags
	Shards      bool           // values are read through nodes of shards
	Description string         // of values; "": that of their form
}

// idForm is a form of IDs.
type idForm struct {
	canonical  func(id string) (string, error)
	parameters func(id string) (url.Values, error) // of a canonical ID; nil: it has none
}

var idForms = map[string]idForm{
	"plain":  {canonical: func(id string) (string, error) { return id, CheckID("id", id) }},
	"list":   {CanonicalListID, listParameters},
	"search": {CanonicalSearchID, searchParameters},
}

// form is a form of values.
type form struct {
	json        bool
	check       func(value []byte) error
	description string
}

var forms = map[string]form{
	"json":    {true, checkJSON, "JSON"},
	"text":    {false, checkTextValue, "text"},
	"id":      {false, checkID, "ID"},
	"ids":     {true, array[[]ID], "JSON array of IDs"},
	"author":  {true, object[Author], "JSON"},
	"topic":   {true, object[Topic], "JSON"},
	"shouts":  {true, array[Shouts], "JSON"},
	"results": {true, object[Results], "JSON"},
}

// Bounds of a definition.
const (
	maxTagNames    = 8
	maxDescription = 128 // bytes
)

var tagName = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,64}$`)

// NewCache returns a kind of cached values. Its keys have one placeholder, the ID, which is the hash tag; or two: the
// owner, which is the hash tag, and a name. It uses the name, the pattern, the TTL, MaxBytes (0: MaxCacheBytes), Cached
// and whether values are secret. The errors begin with the wrong part, as a table of kinds has it, such as key.
func NewCache(k Kind) (*Kind, error) {
	k.Values, k.IDs, k.MaxBytes = cmp.Or(k.Values, "json"), cmp.Or(k.IDs, "plain"), cmp.Or(k.MaxBytes, MaxCacheBytes)
	values, ok := forms[k.Values]
	if !ok {
		return nil, fmt.Errorf("value: is %.64q, it must be %s", k.Values, oneOf(forms))
	}
	if _, ok := idForms[k.IDs]; !ok {
		return nil, fmt.Errorf("ids: is %.64q, it must be %s", k.IDs, oneOf(idForms))
	}
	if err := cmp.Or(k.checkIndexes(), k.checkWords(values), k.checkKeys()); err != nil {
		return nil, err
	}
	k.Type, k.Instance, k.Why, k.cached = String, Cache, "", true
	k.Form = cmp.Or(k.Description, values.description)
	k.Quotes = k.IDs != "plain" || k.Prefixes // IDs can be what users have typed
	if k.TTL == 0 {
		k.Why = "invalidated when the entity changes"
	}
	return compile(k), nil
}

// checkWords checks what a kind says of its values and IDs.
func (k *Kind) checkWords(values form) error {
	switch {
	case strings.Count(k.Pattern, "<") > 1 && k.IDs != "plain":
		return fmt.Errorf("ids: is %s, but IDs are an owner and a name: they must be plain", k.IDs)
	case k.Schema != nil && !values.json:
		return fmt.Errorf("schema: is set, but values have the form %s, which isn't JSON", k.Values)
	case len(k.Description) > maxDescription || !IsText(k.Description):
		return fmt.Errorf("description: must be a line of at most %d bytes", maxDescription)
	}
	return nil
}

// checkKeys checks the name, the keys and the bounds of a kind.
func (k *Kind) checkKeys() error {
	switch {
	case len(k.Name) > MaxCacheNameSize || !cacheName.MatchString(k.Name):
		return fmt.Errorf("name: is %.80q, it must be words of lower-case letters and digits with - between "+
			"them, of at most %d bytes", k.Name, MaxCacheNameSize)
	case len(k.Pattern) > MaxIDBytes || !cachePattern.MatchString(k.Pattern):
		return fmt.Errorf("key: is %.80q, it must be a prefix and a placeholder in braces, such as "+
			"product:{<id>} or cart:{<user>}:<item>, of at most %d letters, digits and _ . : / -", k.Pattern,
			MaxIDBytes)
	case k.TTL != 0 && (k.TTL < time.Second || k.TTL > MaxCacheTTL):
		return fmt.Errorf("ttl: is %s, it must be from 1s to %s", k.TTL, MaxCacheTTL)
	case k.MaxBytes < 1 || k.MaxBytes > MaxCacheBytes:
		return fmt.Errorf("maxBytes: is %d, it must be from 1 to %d", k.MaxBytes, MaxCacheBytes)
	}
	return nil
}

// checkIndexes checks how values can be invalidated besides by their IDs.
func (k *Kind) checkIndexes() error {
	for _, tag := range k.Tags {
		if len(k.Tags) > maxTagNames || !tagName.MatchString(tag) {
			return fmt.Errorf("tags: must be at most %d names of 1 to 64 letters, digits and _ . -", maxTagNames)
		}
	}
	if (k.Prefixes || len(k.Tags) > 0) && (k.TTL == 0 || k.TTL > MaxTaggedTTL) {
		return fmt.Errorf("ttl: is needed, of at most %s, since values can be invalidated by tags or prefixes",
			MaxTaggedTTL)
	}
	return nil
}

// oneOf returns the names in a table of words.
func oneOf[T any](table map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(table)), ", ")
}

// ErrNoKind is the error of a name that isn't a kind of cached value.
var ErrNoKind = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoKind, Detail: "the cache has no kind of this name"}

// ID returns the ID under which the cache stores the value: the canonical ID of a search or a list, otherwise id. That
// of an owner's value is the owner, a colon and a name. Errors: those with fault.SlugInvalidID.
func (k *Kind) ID(id string) (string, error) {
	canonical, err := idForms[k.IDs].canonical(id)
	if tag, rest := k.SplitID(canonical); err == nil && k.Owned() && (tag == "" || rest == "") {
		return "", refused("id", "must be the "+strings.Join(k.Parts(), ", a colon and the "))
	}
	return canonical, err
}

// JSON reports whether values are JSON. Others are plain text.
func (k *Kind) JSON() bool { return forms[k.Values].json }

// maxOwnTags is the maximum number of automatic tags of a value.
const maxOwnTags = 8

// TagsOf returns the automatic tags of the value of an ID: for the tag topic, a list or search with the parameter
// topic=5 has topic:5, and another value with the ID 5 has, too.
func (k *Kind) TagsOf(id string) (tags []string) {
	parametersOf := idForms[k.IDs].parameters
	if parametersOf == nil {
		for _, name := range k.Tags {
			tags = append(tags, name+":"+id)
		}
		return tags
	}
	if len(k.Tags) == 0 || isHash(id) {
		return nil
	}
	parameters, err := parametersOf(id)
	if err != nil {
		return nil // impossible: the ID is canonical
	}
	for _, name := range k.Tags {
		for _, value := range parameters[name] {
			if tag := name + ":" + value; len(tags) < maxOwnTags && CheckID("tag", tag) == nil {
				tags = append(tags, tag)
			}
		}
	}
	return tags
}

// Check refuses a value that is larger than values of the kind may be, or doesn't have their form or schema. Forms
// allow members that they don't name. Errors: fault.SlugValueTooLarge, fault.SlugInvalidValue.
func (k *Kind) Check(value []byte) error {
	if len(value) > k.MaxBytes {
		return &fault.Error{
			Kind: fault.TooLarge, Slug: fault.SlugValueTooLarge,
			Detail: fmt.Sprintf("the value has %d bytes, one of the kind %s at most %d", len(value), k.Name,
				k.MaxBytes),
		}
	}
	wrong := func(field, reason string) error {
		return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidValue, Field: field,
			Detail: "the value doesn't fit the kind " + k.Name + ": " + reason}
	}
	if err := forms[k.Values].check(value); err != nil {
		return wrong("", explain(err))
	}
	if k.Schema != nil {
		if field, err := k.Schema.Check(value); err != nil {
			return wrong(field, err.Error())
		}
	}
	return nil
}

func checkID(value []byte) error { return CheckID("it", string(value)) }

func checkJSON(value []byte) error { return json.Unmarshal(value, new(jsontext.Value)) }

func checkTextValue(value []byte) error {
	switch {
	case len(value) == 0:
		return errors.New("it is empty")
	case !utf8.Valid(value):
		return errors.New("it isn't UTF-8")
	}
	return nil
}

// object checks the JSON of an object that T is decoded from.
func object[T any](value []byte) error { return decodes[T](value, '{', "an object") }

// array checks the JSON of an array that T is decoded from.
func array[T any](value []byte) error { return decodes[T](value, '[', "an array") }

func decodes[T any](value []byte, first byte, what string) error {
	if text := bytes.TrimLeft(value, " \t\r\n"); len(text) == 0 || text[0] != first {
		return errors.New("it must be " + what)
	}
	return json.Unmarshal(value, new(T), numbers)
}

// numbers accepts, for whole numbers, those that Python writes for floats, such as 1.0 and 1640995200.5.
var numbers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, n *int64) error {
	if d.PeekKind() != jsontext.KindNumber {
		return errors.ErrUnsupported
	}
	var number float64
	if err := json.UnmarshalDecode(d, &number); err != nil {
		return err
	}
	if math.Abs(number) > maxNumber {
		return errors.New("is beyond 2^53-1")
	}
	*n = int64(number)
	return nil
}))

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
