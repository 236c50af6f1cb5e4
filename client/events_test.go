package client_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
)

// readEvents returns the events of a text, each as id|name|data, and the error at the end.
func readEvents(r io.Reader) (all []string, err error) {
	events := client.NewEventReader(r)
	for {
		id, name, data, err := events.Next()
		if err != nil {
			return all, err
		}
		all = append(all, fmt.Sprintf("%s|%s|%s", id, name, data))
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 100<<10)
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"retry: 1\n\n: ping\n\nid: 7\nevent: message\ndata: {}\n\n", []string{"7|message|{}"}},
		{"id:7\r\nevent:gap\r\ndata:x:y\r\n\r\n", []string{"7|gap|x:y"}},
		{"data: a\ndata:  b\ndata\n\n\n\ndata: c\n\n", []string{"||a\n b\n", "||c"}},
		{"id: 1\nevent: none\n\ndata: has neither\n\n", []string{"||has neither"}},
		{": ping\nunknown: 1\ndata: " + large + "\n\ndata: b\n\n", []string{"||" + large, "||b"}},
		{"data: a\n\nid: 2\ndata: cut", []string{"||a"}},
		{"data: a\n\nid: 2\ndata: cut\n", []string{"||a"}},
		{"", nil},
	} {
		for _, r := range []io.Reader{strings.NewReader(tt.text), iotest.OneByteReader(strings.NewReader(tt.text))} {
			got, err := readEvents(r)
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, tt.want, got)
		}
	}
}

// TestLargeEvents: no line, and no event of many lines, uses unlimited memory.
func TestLargeEvents(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", client.MaxEventBytes)
	for _, text := range []string{"data: " + line, "unknown: " + line, "data: " + line[:1<<20] + "\n"} {
		got, err := readEvents(&repeated{text: text})
		require.ErrorIs(t, err, client.ErrLargeEvent)
		require.Empty(t, got)
	}
}

// repeated repeats a text without end.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// FuzzEvents: however a text arrives, its events are the same, and none has a line break that isn't between two lines
// of data.
func FuzzEvents(f *testing.F) {
	f.Add("id: 7\nevent: message\ndata: {}\n\n: ping\r\n\r\ndata: a\ndata: b\n\n")
	f.Add("data\n\n\ndata:\n\nid\n")
	f.Fuzz(func(t *testing.T, text string) {
		whole, err := readEvents(strings.NewReader(text))
		require.ErrorIs(t, err, io.EOF)
		parts, err := readEvents(iotest.OneByteReader(strings.NewReader(text)))
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, whole, parts)
		require.LessOrEqual(t, len(whole), strings.Count(text, "\n")/2)
	})
}
