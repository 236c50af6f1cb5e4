// Package anyjson writes messages as JSON, also those with an Any that JSON can't represent.
package anyjson

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/vanguard"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/openmatch"
)

// codec is vanguard's own, but calls malformed JSON the client's fault, and not an unknown error.
type codec struct{ *vanguard.JSONCodec }

// NewCodec returns a codec for vanguard.
func NewCodec(types vanguard.TypeResolver) vanguard.Codec {
	return codec{vanguard.NewJSONCodec(types)}
}

// MarshalAppend appends a message as JSON.
func (c codec) MarshalAppend(base []byte, m proto.Message) ([]byte, error) {
	return Append(c.MarshalOptions, base, m)
}

// Unmarshal reads a message.
func (c codec) Unmarshal(data []byte, m proto.Message) error {
	if err := c.JSONCodec.Unmarshal(data, m); err != nil {
		return connect.NewError(connect.CodeInvalidArgument, errors.New(strings.ToValidUTF8(err.Error(), "\uFFFD")))
	}
	return nil
}

// Append appends a message as JSON. An Any that JSON can't represent, as its type is unknown here or its bytes aren't of
// its type, has its bytes in base64 as its value: one such ticket must not keep those beside it from a client.
func Append(o protojson.MarshalOptions, base []byte, m proto.Message) ([]byte, error) {
	out, err := o.MarshalAppend(base, m)
	if err == nil {
		return out, nil
	}
	marked := &opaque{resolver: o.Resolver, mark: rand.Text() + "/"}
	if marked.resolver == nil {
		marked.resolver = protoregistry.GlobalTypes
	}
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

// extensionsOf returns what callers and assigners have put into a message.
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

// opaque resolves the types of an answer. Those that begin with its mark are bytes.
type opaque struct {
	resolver
	mark string
}

type resolver interface {
	protoregistry.ExtensionTypeResolver
	protoregistry.MessageTypeResolver
}

// replace returns an Any whose value is the bytes of another one, with a marked type.
func (o *opaque) replace(a *anypb.Any) *anypb.Any {
	value, err := proto.Marshal(wrapperspb.Bytes(a.GetValue()))
	if err != nil {
		panic(err) // bytes can always be encoded
	}
	return &anypb.Any{TypeUrl: o.mark + a.GetTypeUrl(), Value: value}
}

// FindMessageByURL returns the type of an Any.
func (o *opaque) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if len(url) >= len(o.mark) && url[:len(o.mark)] == o.mark {
		return new(wrapperspb.BytesValue).ProtoReflect().Type(), nil
	}
	return o.resolver.FindMessageByURL(url)
}
