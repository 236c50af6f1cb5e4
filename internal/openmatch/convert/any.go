package convert

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// known returns the types whose Anys are readable as JSON. The list is fixed, independent of the types linked into a
// program: every server must be able to read the values written by others. Any itself isn't listed, since it can hold a
// message of any type.
var known = sync.OnceValue(func() *protoregistry.Types {
	types := new(protoregistry.Types)
	for _, m := range []proto.Message{
		&wrapperspb.BoolValue{}, &wrapperspb.BytesValue{}, &wrapperspb.DoubleValue{}, &wrapperspb.FloatValue{},
		&wrapperspb.Int32Value{}, &wrapperspb.Int64Value{}, &wrapperspb.StringValue{}, &wrapperspb.UInt32Value{},
		&wrapperspb.UInt64Value{}, &structpb.Value{}, &structpb.Struct{}, &structpb.ListValue{}, &durationpb.Duration{},
		&timestamppb.Timestamp{}, &emptypb.Empty{}, &openmatch.DefaultEvaluationCriteria{},
	} {
		if err := types.RegisterMessage(m.ProtoReflect().Type()); err != nil {
			panic(err) // duplicate type
		}
	}
	return types
})

const (
	typeMember  = "@type"
	valueMember = "value"
	bytesMember = "@bytes"
)

// ToExtensions returns extensions as JSON. It fails for an Any of a known type that JSON can't represent, such as a
// google.protobuf.Value without a value; the error's field is the extension's name.
func ToExtensions(anys map[string]*anypb.Any) (map[string]json.RawMessage, error) {
	if len(anys) == 0 {
		return nil, nil
	}
	extensions := make(map[string]json.RawMessage, len(anys))
	for name, a := range anys {
		text, err := toJSON(a)
		if err != nil {
			return nil, invalid(name, "%v", err)
		}
		extensions[name] = text
	}
	return extensions, nil
}

// FromExtensions returns extensions as Anys. JSON that a google.protobuf.Value can't represent becomes a string that
// contains the JSON text.
func FromExtensions(extensions map[string]json.RawMessage) map[string]*anypb.Any {
	return changed(extensions, fromJSON)
}

func toJSON(a *anypb.Any) (json.RawMessage, error) {
	if !isKnown(a.GetTypeUrl()) {
		return opaqueJSON(a), nil
	}
	text, err := protojson.MarshalOptions{Resolver: known()}.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("the %s can't be represented in JSON: %w", a.MessageName(), err)
	}
	var compact bytes.Buffer // protojson varies its white space
	err = json.Compact(&compact, text)
	return compact.Bytes(), err
}

// anyJSON is toJSON, except that an Any that JSON can't represent is written like one of an unknown type.
func anyJSON(a *anypb.Any) json.RawMessage {
	if text, err := toJSON(a); err == nil {
		return text
	}
	return opaqueJSON(a)
}

// opaqueJSON returns an Any with its bytes in base64.
func opaqueJSON(a *anypb.Any) json.RawMessage {
	encoded := base64.StdEncoding.EncodeToString(a.GetValue())
	text, err := json.Marshal(map[string]string{typeMember: a.GetTypeUrl(), valueMember: encoded})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return text
}

func isKnown(typeURL string) bool {
	_, err := known().FindMessageByURL(typeURL)
	return err == nil
}

func fromJSON(text json.RawMessage) *anypb.Any {
	if a, ok := typed(text); ok {
		return a
	}
	value := new(structpb.Value)
	if err := protojson.Unmarshal(text, value); err != nil {
		value = structpb.NewStringValue(strings.ToValidUTF8(string(text), "\uFFFD"))
	}
	return pack(value)
}

// typed parses the output of toJSON and exactJSON. ok is false for other JSON.
func typed(text json.RawMessage) (*anypb.Any, bool) {
	if !bytes.Contains(text, []byte(typeMember)) {
		return nil, false
	}
	var members map[string]json.RawMessage
	var typeURL string
	if json.Unmarshal(text, &members) != nil || json.Unmarshal(members[typeMember], &typeURL) != nil {
		return nil, false
	}
	content, exact := members[bytesMember]
	if !exact && isKnown(typeURL) {
		a := new(anypb.Any)
		err := protojson.UnmarshalOptions{Resolver: known()}.Unmarshal(text, a)
		return a, err == nil
	}
	if !exact {
		content = members[valueMember]
	}
	var encoded string
	if len(members) != 2 || json.Unmarshal(content, &encoded) != nil {
		return nil, false
	}
	value, err := base64.StdEncoding.Strict().DecodeString(encoded)
	return &anypb.Any{TypeUrl: typeURL, Value: value}, err == nil
}

// pack returns an Any of a message whose strings are UTF-8. The encoding is deterministic.
func pack(m proto.Message) *anypb.Any {
	a := new(anypb.Any)
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(err) // only strings that aren't UTF-8 can't be packed
	}
	return a
}

// changed returns a map with the same names and converted values, or nil if empty.
func changed[V, W any](values map[string]V, change func(V) W) map[string]W {
	if len(values) == 0 {
		return nil
	}
	all := make(map[string]W, len(values))
	for name, value := range values {
		all[name] = change(value)
	}
	return all
}

// invalid returns the error of an invalid message from a client.
func invalid(field, format string, args ...any) error {
	return &fault.Error{
		Kind: fault.Invalid, Slug: fault.SlugInvalidTicket, Field: field, Detail: field + ": " + fmt.Sprintf(format,
			args...),
	}
}

// within returns err with parent and a dot before its field.
func within(parent string, err error) error {
	if e, ok := err.(*fault.Error); ok { //nolint:errorlint // created by invalid, and not wrapped
		return &fault.Error{Kind: e.Kind, Slug: e.Slug, Field: parent + "." + e.Field, Detail: parent + "." + e.Detail}
	}
	return err
}
