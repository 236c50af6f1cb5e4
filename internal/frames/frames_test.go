package frames_test

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/frames"
)

// client sends bytes as fast as they are read, and discards answers.
type client struct {
	net.Conn
	sends io.Reader
}

func (c *client) Read(p []byte) (int, error)  { return c.sends.Read(p) }
func (c *client) Write(p []byte) (int, error) { return len(p), nil }
func (c *client) Close() error                { return nil }

// repeated sends a text again and again.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// frame returns a frame.
func frame(kind http2.FrameType, flags http2.Flags, stream uint32, payload string) string {
	var b bytes.Buffer
	// a buffer takes everything
	_ = http2.NewFramer(&b, nil).WriteRawFrame(kind, flags, stream, []byte(payload))
	return b.String()
}

// metered is a limited connection with what it has reported.
type metered struct {
	*frames.Conn
	client   *client
	outcomes []frames.Outcome
}

func newConn() *metered { return connWith(100) }

// connWith returns a connection with a number of streams.
func connWith(streams int) *metered {
	m := &metered{client: new(client)}
	m.Conn = frames.New(m.client, streams, func(o frames.Outcome) { m.outcomes = append(m.outcomes, o) })
	return m
}

// receive reads a text completely.
func (m *metered) receive(t *testing.T, text string) {
	t.Helper()
	m.client.sends = strings.NewReader(text)
	n, err := io.Copy(io.Discard, m.Conn)
	require.NoError(t, err)
	require.Equal(t, len(text), int(n))
}

// receiveFor reads what the client sends for a time, or until the connection must be closed, and returns the number of
// bytes.
func (m *metered) receiveFor(t *testing.T, d time.Duration) (total int) {
	t.Helper()
	p := make([]byte, 9) // as net/http reads headers
	for end := time.Now().Add(d); time.Now().Before(end); {
		n, err := m.Read(p)
		total += n
		if err != nil {
			require.ErrorIs(t, err, net.ErrClosed)
			break
		}
	}
	return total
}

var (
	reset  = frame(http2.FrameRSTStream, 0, 1, "\x00\x00\x00\x08")
	ping   = frame(http2.FramePing, 0, 0, "12345678")
	goAway = frame(http2.FrameGoAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x01")
)

// fieldsOf returns a HEADERS frame with a block.
func fieldsOf(flags http2.Flags, block string) string {
	return frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream|flags, 1, block)
}

// headers returns a HEADERS frame of about a size, with some fields.
func headers(size int) string {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for n := range 20 {
		_ = encoder.WriteField(hpack.HeaderField{Name: "x-" + strconv.Itoa(n), Value: "1"}) // to a buffer
	}
	value := strings.Repeat("\n", max(0, size-block.Len())) // which Huffman's code doesn't shorten
	_ = encoder.WriteField(hpack.HeaderField{Name: ":path", Value: value, Sensitive: true})
	return fieldsOf(0, block.String())
}

// TestFloods sends frames as fast as they are read: they are slowed down to the rate, and then the connection is
// closed. In this test only waits take time.
func TestFloods(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]struct {
		text  string
		price int // of the text
	}{
		"PING":                     {ping, 1},
		"SETTINGS":                 {frame(http2.FrameSettings, 0, 0, "\x00\x04\x00\x01\x00\x00"), 1},
		"empty SETTINGS":           {frame(http2.FrameSettings, 0, 0, ""), 1},
		"WINDOW_UPDATE":            {frame(http2.FrameWindowUpdate, 0, 0, "\x00\x00\x00\x01"), 1},
		"PRIORITY":                 {frame(http2.FramePriority, 0, 1, "\x00\x00\x00\x00\x01"), 1},
		"empty DATA":               {frame(http2.FrameData, 0, 1, ""), 1},
		"DATA of a byte":           {frame(http2.FrameData, 0, 1, "a"), 1},
		"unknown":                  {frame(0xfa, 0, 1, ""), 1},
		"requests without answers": {headers(2 << 10), 1},
		"rapid reset":              {headers(100) + reset, 3},
		"large headers":            {headers(16 << 10), 57},
		"CONTINUATION":             {frame(http2.FrameContinuation, 0, 1, strings.Repeat("\xbe", 1<<10)), 24},
		"many small headers":       {fieldsOf(0, strings.Repeat("\xbe", 800)), 85},
		"padded headers":           {fieldsOf(http2.FlagHeadersPadded, "\x00"+strings.Repeat("\xbe", 800)), 85},
		"GOAWAY":                   {goAway, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, began := newConn(), time.Now()
				c.client.sends = io.MultiReader(strings.NewReader(http2.ClientPreface), &repeated{text: flood.text})
				received := c.receiveFor(t, 2*time.Second)
				require.Equal(t, []frames.Outcome{frames.Slowed}, c.outcomes)
				require.InDelta(t, frames.MinBurst+2*frames.Rate, flood.price*received/len(flood.text), 150)
				c.receiveFor(t, time.Hour)
				require.Equal(t, []frames.Outcome{frames.Slowed, frames.Closed}, c.outcomes)
				require.InDelta(t, frames.Patience, time.Since(began), float64(300*time.Millisecond))
			})
		})
	}
}

// TestFields counts the fields of blocks that an encoder writes.
func TestFields(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		names := rapid.SampledFrom([]string{":path", "authorization", "x-a", strings.Repeat("x", 200), "x-b"})
		values := rapid.OneOf(rapid.Just(""), rapid.Just("GET"), rapid.StringN(0, 300, -1), rapid.Just(strings.Repeat("v", 20000)))
		n := rapid.IntRange(0, 100).Draw(t, "fields")
		for range n {
			require.NoError(t, encoder.WriteField(hpack.HeaderField{Name: names.Draw(t, "name"),
				Value: values.Draw(t, "value"), Sensitive: rapid.Bool().Draw(t, "sensitive")}))
		}
		require.Equal(t, n, frames.CountFields(block.Bytes()))
	})
}

// TestLargestFrame announces the largest possible frame, which the server refuses when it is read: that doesn't wait for
// the price of all its bytes.
func TestLargestFrame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, began := newConn(), time.Now()
		c.receive(t, http2.ClientPreface+"\xff\xff\xff\x01\x00\x00\x00\x00\x01")
		require.Equal(t, []frames.Outcome{frames.Slowed}, c.outcomes)
		require.Equal(t, frames.Patience, time.Since(began))
	})
}

// TestClientsWithinTheLimit sends what well-behaved clients send: nothing waits.
func TestClientsWithinTheLimit(t *testing.T) {
	t.Parallel()
	const many = 100_000
	answer := frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, strings.Repeat("h", 50))
	for name, sends := range map[string]struct {
		text   string
		answer string
		pause  time.Duration // after each text
	}{
		"requests":                  {headers(100), answer, 0},
		"requests with long tokens": {headers(2 << 10), answer, 0},
		"watches that are ended":    {headers(100) + reset, answer + frame(http2.FrameData, 0, 1, "match"), 0},
		"polls that are canceled":   {headers(100) + reset, "", 4 * time.Millisecond},
		"a large answer": {
			frame(http2.FrameWindowUpdate, 0, 0, "\x00\x00\x10\x00") + frame(http2.FrameWindowUpdate, 0, 1, "\x00\x00\x10\x00"),
			frame(http2.FrameData, 0, 1, strings.Repeat("d", 4<<10)), 0,
		},
		"a large body":       {frame(http2.FrameData, 0, 1, strings.Repeat("d", 1<<10)), "", 0},
		"the ends of bodies": {frame(http2.FrameData, http2.FlagDataEndStream, 1, ""), "", 0},
		"HTTP/1.1":           {"GET /v1/info HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, began := newConn(), time.Now()
				if name != "HTTP/1.1" {
					c.receive(t, http2.ClientPreface)
				}
				c.client.sends = &repeated{text: sends.text}
				p := make([]byte, len(sends.text))
				for range many {
					_, err := io.ReadFull(c, p)
					require.NoError(t, err)
					_, err = c.Write([]byte(sends.answer))
					require.NoError(t, err)
					<-time.After(sends.pause)
				}
				require.Empty(t, c.outcomes)
				require.Equal(t, many*sends.pause, time.Since(began))
			})
		})
	}
}

// TestBurst opens all streams of a connection at once, and later resets them at once: nothing waits.
func TestBurst(t *testing.T) {
	t.Parallel()
	for _, streams := range []int{1, 250, 1000} {
		synctest.Test(t, func(t *testing.T) {
			c, began := connWith(streams), time.Now()
			c.receive(t, http2.ClientPreface+strings.Repeat(headers(100), streams))
			<-time.After(time.Second)
			c.receive(t, strings.Repeat(reset, streams))
			require.Empty(t, c.outcomes)
			require.Equal(t, time.Second, time.Since(began))
		})
	}
}

// TestSlowedClientRecovers exceeds the limit for less than the patience, twice: the connection isn't closed, and all
// frames are read.
func TestSlowedClientRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConn()
		for _, text := range []string{http2.ClientPreface, strings.Repeat(ping, 4000), strings.Repeat(ping, 4000)} {
			c.receive(t, text)
			<-time.After(time.Second)
		}
		require.Equal(t, []frames.Outcome{frames.Slowed}, c.outcomes)
	})
}

// TestClose ends a read that waits.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, began := newConn(), time.Now()
		c.client.sends = strings.NewReader(http2.ClientPreface + strings.Repeat(goAway, 100))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = c.Read(make([]byte, 4096))
		}()
		synctest.Wait()
		require.Equal(t, []frames.Outcome{frames.Slowed}, c.outcomes)
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		<-ended
		require.Zero(t, time.Since(began))
	})
}

// FuzzReads reads the same bytes in pieces of other sizes: the price is the same.
func FuzzReads(f *testing.F) {
	f.Add([]byte(http2.ClientPreface+ping+frame(http2.FrameData, 0, 1, "abc")), uint8(7))
	f.Add([]byte(http2.ClientPreface+fieldsOf(0, strings.Repeat("\xbe", 800))+ping), uint8(100))
	padded := fieldsOf(http2.FlagHeadersPadded|http2.FlagHeadersPriority, strings.Repeat("\x7f", 300))
	f.Add([]byte(http2.ClientPreface+padded), uint8(0))
	f.Add([]byte(http2.ClientPreface+"\xff\xff\xff"), uint8(1))
	f.Add([]byte("PRI * HTTP/1.1\r\n\r\n"), uint8(3))
	f.Fuzz(func(t *testing.T, sent []byte, size uint8) {
		pieces, prices := newConn(), 0
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), int(size)+1)
			prices += pieces.PriceOf(rest[:n])
			rest = rest[n:]
		}
		require.Equal(t, newConn().PriceOf(sent), prices)
	})
}

// BenchmarkRead reads a short request of HTTP/1.1, as most clients send it.
func BenchmarkRead(b *testing.B) {
	c := newConn()
	c.client.sends = &repeated{text: "GET /v1/info HTTP/1.1\r\nHost: a\r\n\r\n"}
	p := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Read(p); err != nil {
			b.Fatal(err)
		}
	}
}
