package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// quickPublish decodes a publish in its usual form without reflection, since most frames are one: its strings have
// plain ASCII, and there are no spaces around its members. It returns false for all other frames, and for those that
// may be invalid.
func quickPublish(text []byte) (f ClientFrame, ok bool) {
	rest, ok := bytes.CutPrefix(text, []byte("{"))
	for ok && len(rest) > 0 {
		var name, value []byte
		if name, rest, ok = quickString(rest); !ok || len(rest) == 0 || rest[0] != ':' {
			return f, false
		}
		switch rest = rest[1:]; string(name) {
		case "type":
			value, rest, ok = quickString(rest)
			ok = ok && f.Type == "" && string(value) == FramePublish
			f.Type = FramePublish
		case "ref":
			ok = f.Ref == 0
			f.Ref, rest = quickRef(rest)
		case "channel":
			value, rest, ok = quickString(rest)
			ok = ok && f.Channel == "" && len(value) > 0
			f.Channel = string(value)
		case "id":
			value, rest, ok = quickString(rest)
			ok = ok && f.Draft.ID == "" && len(value) > 0
			f.Draft.ID = string(value)
		case "content":
			ok = f.Draft.Content == nil
			f.Draft.Content, rest = quickContent(rest)
		default:
			return f, false
		}
		if len(rest) == 0 || rest[0] != ',' {
			break
		}
		rest = rest[1:]
	}
	return f, ok && string(rest) == "}" && f.Type != "" && f.Ref != 0 && f.Channel != "" && f.Draft.Content != nil
}

// quickString reads a string of plain ASCII.
func quickString(text []byte) (value, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '"' {
		return nil, nil, false
	}
	for i, c := range text[1:] {
		switch {
		case c == '"':
			return text[1 : i+1], text[i+2:], true
		case c == '\\' || c < ' ' || c > '~':
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// quickRef reads a ref. It returns 0 for one that may be invalid.
func quickRef(text []byte) (ref uint64, rest []byte) {
	const digits = 15 // of no ref beyond MaxRef
	n := 0
	for n < len(text) && n < digits && '0' <= text[n] && text[n] <= '9' {
		ref = 10*ref + uint64(text[n]-'0')
		n++
	}
	if n == 0 || text[0] == '0' || n == digits {
		return 0, text
	}
	return ref, text[n:]
}

// quickContent reads the content at the end of a frame: it must be its last member. It returns nil for one that may be
// invalid.
func quickContent(text []byte) (content, rest []byte) {
	content, ok := bytes.CutSuffix(text, []byte("}"))
	if !ok {
		return nil, nil
	}
	if value, rest, ok := quickString(content); ok && len(rest) == 0 {
		return content[: len(value)+2 : len(value)+2], text[len(content):]
	}
	if len(content) == 0 || content[0] <= ' ' || content[len(content)-1] <= ' ' || !jsontext.Value(content).IsValid() {
		return nil, nil
	}
	return content[:len(content):len(content)], text[len(content):]
}
