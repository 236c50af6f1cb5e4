package channels

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
	"github.com/tidemark-dev/tidemark/receipt"
)

// Messages are stored as {"id":"…","write":"…","content":…,"at":<ms>}, an envelope around the content, whose bytes
// never change. The write is a receipt.Write. A message whose publish was traced has "trace":"…" after the write, and
// one that isn't JSON has "type":"…" before the content, which is any bytes then, so that the envelope is no JSON. What
// precedes the content has no other quotes, and what follows it is the end of the envelope: no content is taken for
// either.
const (
	beforeID      = `{"id":"`
	beforeWrite   = `","write":"`
	beforeTrace   = `","trace":"`
	beforeType    = `","type":"`
	beforeContent = `","content":`

	// beforeTime follows the content, and is followed by Redis's time in milliseconds and a brace.
	beforeTime = `,"at":`
)

// head returns an envelope up to the end of its content; the publish script adds the time. IDs need no escaping.
func head(d channel.Draft, w receipt.Write) string {
	var b strings.Builder
	b.Grow(len(beforeID) + len(d.ID) + len(beforeWrite) + receipt.WriteTextBytes + len(beforeTrace) + len(d.Trace) +
		len(beforeType) + len(d.ContentType) + len(beforeContent) + len(d.Content))
	b.WriteString(beforeID)
	b.WriteString(d.ID)
	b.WriteString(beforeWrite)
	b.WriteString(w.String())
	if d.Trace != "" {
		b.WriteString(beforeTrace)
		b.WriteString(d.Trace)
	}
	if d.ContentType != "" {
		b.WriteString(beforeType)
		b.WriteString(d.ContentType)
	}
	b.WriteString(beforeContent)
	b.Write(d.Content)
	return b.String()
}

// parseEnvelope returns the message of an envelope. The message's content shares the envelope's memory. The error is of
// an envelope that is damaged, or whose content should be JSON and isn't: an answer with such a content could not be
// parsed.
func parseEnvelope(text []byte, at clock.Clock) (channel.Message, error) {
	rest, ok := bytes.CutPrefix(text, []byte(beforeID))
	if !ok {
		return parseForeign(text, at)
	}
	id, rest, ok := bytes.Cut(rest, []byte(beforeContent))
	id, contentType, typed := bytes.Cut(id, []byte(beforeType))
	id, trace, _ := bytes.Cut(id, []byte(beforeTrace))
	id, write, _ := bytes.Cut(id, []byte(beforeWrite))
	tail := bytes.LastIndex(rest, []byte(beforeTime))
	if !ok || tail < 0 || rest[len(rest)-1] != '}' || channel.CheckMessageID(string(id)) != nil {
		return parseForeign(text, at)
	}
	ms, err := strconv.ParseInt(string(rest[tail+len(beforeTime):len(rest)-1]), 10, 64)
	m := channel.Message{ID: string(id), Clock: at, Content: rest[:tail:tail], PublishedAt: time.UnixMilli(ms),
		Write: writeOf(write), Trace: string(trace)}
	if typed {
		m.ContentType = string(contentType)
	}
	if err != nil || !isTime(ms) || typed && (m.Write.IsZero() || !channel.IsContentType(m.ContentType)) ||
		!typed && !strictjson.Valid(m.Content) {
		return parseForeign(text, at)
	}
	return m, nil
}

// writeOf returns the write of an envelope. One that is missing or damaged is unknown.
func writeOf(text []byte) receipt.Write {
	w, err := receipt.ParseWrite(string(text))
	if err != nil {
		return receipt.Write{}
	}
	return w
}

// parseForeign returns the message of an envelope of the predecessor: any JSON object with an id and a content. One that
// also has a write and a type is damaged: its content isn't JSON, even if it looks like it.
func parseForeign(text []byte, at clock.Clock) (channel.Message, error) {
	var e struct {
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"`
		At      int64           `json:"at"`
		Trace   string          `json:"trace"`
		Write   json.RawMessage `json:"write"`
		Type    json.RawMessage `json:"type"`
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return channel.Message{}, fmt.Errorf("message at clock %s: %w", at, err)
	}
	if channel.CheckMessageID(e.ID) != nil || len(e.Content) == 0 {
		return channel.Message{}, fmt.Errorf("message at clock %s has no id or no content", at)
	}
	if e.Write != nil && e.Type != nil {
		return channel.Message{}, fmt.Errorf("message at clock %s has a damaged write or content type", at)
	}
	if !isTime(e.At) || !strictjson.Valid(e.Content) {
		return channel.Message{}, fmt.Errorf("message at clock %s has no time or a content that isn't JSON in UTF-8", at)
	}
	m := channel.Message{ID: e.ID, Clock: at, Content: e.Content, Trace: e.Trace}
	if e.At != 0 {
		m.PublishedAt = time.UnixMilli(e.At)
	}
	return m, nil
}

// isTime reports whether RFC 3339 can express a time in milliseconds: its years have four digits.
func isTime(ms int64) bool { return ms >= 0 && ms < 253_402_300_800_000 }

// headBytes is how much of an envelope scripts read to find its ID and its write.
const headBytes = 160

// idPattern is the pattern by which scripts find the ID of an envelope.
var idPattern = regexp.MustCompile(`^[\t-\r ]*\{[\t-\r ]*"id"[\t-\r ]*:[\t-\r ]*"([^"]*)"`)

// identityOf returns the ID and the write of an envelope as scripts read them, also of one that parseEnvelope can't
// read: the ID may be no valid one then. The start of the envelope is enough, headBytes of it.
func identityOf(text []byte) (id string, w receipt.Write) {
	text = text[:min(len(text), headBytes)]
	found := idPattern.FindSubmatch(text)
	if found == nil {
		return "", w
	}
	rest, ok := bytes.CutPrefix(text, []byte(beforeID+string(found[1])+beforeWrite))
	if ok && len(rest) > receipt.WriteTextBytes {
		w = writeOf(rest[:receipt.WriteTextBytes])
	}
	return string(found[1]), w
}

// isOf reports whether an envelope is that of a receipt's message.
func isOf(text []byte, r *receipt.Receipt) bool {
	id, write := identityOf(text)
	if !r.Write.IsZero() {
		return write == r.Write
	}
	return id == r.MessageID
}
