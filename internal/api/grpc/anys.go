package grpc

import (
	"bytes"
	"crypto/rand"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/openmatch"
)

// readJSON reads a message.
func readJSON(data []byte, m proto.Message) error {
	if err := jsonIn.Unmarshal(data, m); err != nil {
		return badRequest(strings.ToValidUTF8(err.Error(), "\uFFFD"))
	}
	return nil
}

// appendJSON appends a message as JSON. If JSON can't represent an Any, because its type is unknown or its bytes are
// invalid, its value is its bytes in base64. Otherwise one such ticket would make a whole page of tickets unreadable.
func appendJSON(o protojson.MarshalOptions, base []byte, m proto.Message) ([]byte, error) {
	out, err := o.MarshalAppend(base, m)
	if err == nil {
		return out, nil
	}
	marked := &opaqueTypes{typeResolver: o.Resolver, mark: rand.Text() + "/"}
	m = proto.Clone(m)
	for _, extensions := range extensionsOf(m) {
		for name, a := range extensions {
			if _, err := o.Marshal(a); err != nil {
				extensions[name] = marked.replace(a)
			}
		}
	}
	o.Resolver = marked
	text, err := o.Marshal(m)
	if err != nil {
		return nil, err
	}
	return append(base, bytes.ReplaceAll(text, []byte(marked.mark), nil)...), nil
}

// extensionsOf returns the maps of a message that can have any type of value.
func extensionsOf(m proto.Message) (all []map[string]*anypb.Any) {
	switch m := m.(type) {
	case *openmatch.Ticket:
		return append(all, m.GetExtensions(), m.GetPersistentField(), m.GetAssignment().GetExtensions())
	case *openmatch.WatchAssignmentsResponse:
		return append(all, m.GetAssignment().GetExtensions())
	case *openmatch.QueryTicketsResponse:
		for _, t := range m.GetTickets() {
			all = append(all, extensionsOf(t)...)
		}
	}
	return all
}

// opaqueTypes resolves type URLs. Those that begin with its mark are BytesValue.
type opaqueTypes struct {
	typeResolver
	mark string
}

type typeResolver interface {
	protoregistry.ExtensionTypeResolver
	protoregistry.MessageTypeResolver
}

// flatTypes are types except those that can contain an Any: an Any of such a type is like one of an unknown type.
// protojson reads the text of an Any once more for each Any around it, and copies its bytes as often: a message of a
// few hundred KiB with Anys in each other took minutes, or gigabytes.
type flatTypes struct{ typeResolver }

// FindMessageByURL returns the type with a type URL.
func (f flatTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	found, err := f.typeResolver.FindMessageByURL(url)
	if err == nil && containsAny(found.Descriptor()) {
		return nil, protoregistry.NotFound
	}
	return found, err
}

// withAny has for the types that were asked for, by name, whether they can contain an Any. They are types of the
// program, so there are few.
var withAny sync.Map

// containsAny reports whether a message of a type, or a message in it, can be an Any.
func containsAny(d protoreflect.MessageDescriptor) bool {
	contains, ok := withAny.Load(d.FullName())
	if !ok {
		contains = findAny(d, map[protoreflect.FullName]bool{})
		withAny.Store(d.FullName(), contains)
	}
	return contains.(bool)
}

// findAny is containsAny, except for the types in seen.
func findAny(d protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[d.FullName()] {
		return false
	}
	seen[d.FullName()] = true
	fields := d.Fields()
	for i := range fields.Len() {
		if of := fields.Get(i).Message(); of != nil && findAny(of, seen) {
			return true
		}
	}
	return d.FullName() == anyName
}

var anyName = new(anypb.Any).ProtoReflect().Descriptor().FullName()

// replace returns an Any with the bytes of another one as BytesValue, and a marked type.
func (o *opaqueTypes) replace(a *anypb.Any) *anypb.Any {
	value, err := proto.Marshal(wrapperspb.Bytes(a.GetValue()))
	if err != nil {
		panic(err) // bytes can always be encoded
	}
	return &anypb.Any{TypeUrl: o.mark + a.GetTypeUrl(), Value: value}
}

// FindMessageByURL returns the type with a type URL.
func (o *opaqueTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if len(url) >= len(o.mark) && url[:len(o.mark)] == o.mark {
		return new(wrapperspb.BytesValue).ProtoReflect().Type(), nil
	}
	return o.typeResolver.FindMessageByURL(url)
}
