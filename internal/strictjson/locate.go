package strictjson

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Locate returns where the value that a JSON pointer names begins, in bytes from the start of the text, or, if there is
// none, the innermost object or array that would have it. It is -1 if the text isn't JSON up to there.
func Locate(text []byte, pointer string) int64 {
	for ; ; pointer = pointer[:strings.LastIndexByte(pointer, '/')] {
		if at := locate(text, pointer); at >= 0 || pointer == "" {
			return at
		}
	}
}

func locate(text []byte, pointer string) int64 {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	for {
		begin := d.InputOffset()
		token, err := d.ReadToken()
		if err != nil {
			return -1
		}
		kind, length := d.StackIndex(d.StackDepth())
		isName := kind == jsontext.KindBeginObject && length%2 == 1 && token.Kind() == jsontext.KindString
		if isName || token.Kind() == jsontext.KindEndObject || token.Kind() == jsontext.KindEndArray ||
			string(d.StackPointer()) != pointer {
			continue
		}
		for strings.IndexByte(" \t\r\n:,", text[begin]) >= 0 {
			begin++
		}
		return begin
	}
}
