package records

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
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

// Definition describes a kind of cached values.
type Definition struct {
	Name        string
	Key         string        // pattern of the keys, such as product:{<id>}
	TTL         time.Duration // the longest; 0: values stay until they are removed
	MaxBytes    int           // the longest value; 0: records.MaxCacheBytes
	Secret      bool
	Value       string         // the form of values, such as text; "": json
	Schema      channel.Schema // of values that are JSON; nil: none
	IDs         string         // the form of IDs: plain, list or search; "": plain
	Prefixes    bool           // values can be invalidated by the beginning of their IDs
	Tags        []string       // names of automatic tags
	Shards      bool           // values are read through nodes of shards
	Description string         // of values; "": that of their form
}

// CacheKind is a kind of value in the cache.
type CacheKind struct {
	*Kind

	// JSON reports whether values are JSON. Others are plain text.
	JSON bool

	definition Definition // with all defaults
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

// NewCacheKind returns a kind of cached values. The errors begin with the wrong part, such as key.
func NewCacheKind(d Definition) (*CacheKind, error) {
	d.Value, d.IDs = cmp.Or(d.Value, "json"), cmp.Or(d.IDs, "plain")
	d.MaxBytes = cmp.Or(d.MaxBytes, MaxCacheBytes)
	values, ok := forms[d.Value]
	if !ok {
		return nil, fmt.Errorf("value: is %.64q, it must be %s", d.Value, oneOf(forms))
	}
	if _, ok := idForms[d.IDs]; !ok {
		return nil, fmt.Errorf("ids: is %.64q, it must be %s", d.IDs, oneOf(idForms))
	}
	if err := d.checkIndexes(); err != nil {
		return nil, err
	}
	switch {
	case strings.Count(d.Key, "<") > 1 && d.IDs != "plain":
		return nil, fmt.Errorf("ids: is %s, but IDs are an owner and a name: they must be plain", d.IDs)
	case d.Schema != nil && !values.json:
		return nil, fmt.Errorf("schema: is set, but values have the form %s, which isn't JSON", d.Value)
	case len(d.Description) > maxDescription || !IsText(d.Description):
		return nil, fmt.Errorf("description: must be a line of at most %d bytes", maxDescription)
	}
	made, err := NewCache(Kind{
		Name: d.Name, Pattern: d.Key, Form: cmp.Or(d.Description, values.description), TTL: d.TTL, Secret: d.Secret,
		MaxBytes: d.MaxBytes, Quotes: d.IDs != "plain" || d.Prefixes, // IDs can be what users have typed
	})
	if err != nil {
		return nil, err
	}
	return &CacheKind{Kind: made, JSON: values.json, definition: d}, nil
}

// checkIndexes checks how values can be invalidated besides by their IDs.
func (d *Definition) checkIndexes() error {
	for _, tag := range d.Tags {
		if len(d.Tags) > maxTagNames || !tagName.MatchString(tag) {
			return fmt.Errorf("tags: must be at most %d names of 1 to 64 letters, digits and _ . -", maxTagNames)
		}
	}
	if (d.Prefixes || len(d.Tags) > 0) && (d.TTL == 0 || d.TTL > MaxTaggedTTL) {
		return fmt.Errorf("ttl: is needed, of at most %s, since values can be invalidated by tags or prefixes",
			MaxTaggedTTL)
	}
	return nil
}

// oneOf returns the names in a table of words.
func oneOf[T any](table map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(table)), ", ")
}

// CacheKinds are the kinds of cached values of a site. They are immutable.
type CacheKinds struct {
	Table *Table

	list []*CacheKind
}

// NewCacheKinds returns the kinds of a site. Errors: those of records.NewTable.
func NewCacheKinds(list []*CacheKind) (*CacheKinds, error) {
	plain := make([]*Kind, len(list))
	for i, k := range list {
		plain[i] = k.Kind
	}
	table, err := NewTable(plain...)
	return &CacheKinds{Table: table, list: list}, err
}

// Plain returns the kinds with plain keys. Errors: those of records.Table.Plain.
func (k *CacheKinds) Plain() (*CacheKinds, error) {
	table, err := k.Table.Plain()
	if err != nil {
		return nil, err
	}
	plain := &CacheKinds{Table: table}
	for i, kind := range k.list {
		of := *kind
		of.Kind = table.Caches()[i]
		plain.list = append(plain.list, &of)
	}
	return plain, nil
}

// All returns the kinds in order. It must not be changed.
func (k *CacheKinds) All() []*CacheKind { return k.list }

// ErrNoKind is the error of a name that isn't a kind of cached value.
var ErrNoKind = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoKind, Detail: "the cache has no kind of this name"}

// Find returns the kind with a name, such as author. Errors: ErrNoKind.
func (k *CacheKinds) Find(name string) (*CacheKind, error) {
	for _, kind := range k.list {
		if kind.Name == name {
			return kind, nil
		}
	}
	return nil, ErrNoKind
}

// ID returns the ID under which the cache stores the value: the canonical ID of a search or a list, otherwise id. That
// of an owner's value is the owner, a colon and a name. Errors: those with fault.SlugInvalidID.
func (k *CacheKind) ID(id string) (string, error) {
	canonical, err := idForms[k.definition.IDs].canonical(id)
	if tag, rest := k.SplitID(canonical); err == nil && k.Owned() && (tag == "" || rest == "") {
		return "", refused("id", "must be the "+strings.Join(k.Parts(), ", a colon and the "))
	}
	return canonical, err
}

// Definition returns the definition of the kind, with all defaults.
func (k *CacheKind) Definition() Definition { return k.definition }

// Prefixes reports whether values can be invalidated by the beginning of their ID.
func (k *CacheKind) Prefixes() bool { return k.definition.Prefixes }

// maxOwnTags is the maximum number of automatic tags of a value.
const maxOwnTags = 8

// Tags returns the automatic tags of the value of an ID: for the tag topic, a list or search with the parameter topic=5
// has topic:5, and another value with the ID 5 has, too.
func (k *CacheKind) Tags(id string) (tags []string) {
	parametersOf := idForms[k.definition.IDs].parameters
	if parametersOf == nil {
		for _, name := range k.definition.Tags {
			tags = append(tags, name+":"+id)
		}
		return tags
	}
	if len(k.definition.Tags) == 0 || isHash(id) {
		return nil
	}
	parameters, err := parametersOf(id)
	if err != nil {
		return nil // impossible: the ID is canonical
	}
	for _, name := range k.definition.Tags {
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
func (k *CacheKind) Check(value []byte) error {
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
	if err := forms[k.definition.Value].check(value); err != nil {
		return wrong("", explain(err))
	}
	if k.definition.Schema != nil {
		if field, err := k.definition.Schema.Check(value); err != nil {
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
