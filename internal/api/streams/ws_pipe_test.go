package streams_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/api/streams"
	"github.com/tidemark-dev/tidemark/internal/frames"
)

// flooded returns a pipe whose client sends a text again and again until the pipe is closed.
func flooded(t *testing.T, text string, exceeded func(frames.Outcome)) *streams.Pipe {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		for err := error(nil); err == nil; {
			_, err = io.WriteString(client, text)
		}
	}()
	return streams.NewReadingPipe(server, exceeded)
}

// readAll reads a pipe to its end, and returns how many bytes it had.
func readAll(p *streams.Pipe) (bytes int) {
	b := make([]byte, 1<<10)
	for {
		n, err := p.Read(b)
		if bytes += n; err != nil {
			return bytes
		}
	}
}

// TestPipeOfAnEndedSocket: of a client whose socket ends little is read, and for a short time only.
func TestPipeOfAnEndedSocket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := flooded(t, "\x82\xfe\x03\xf8\x00\x00\x00\x00"+strings.Repeat("x", 1016), func(frames.Outcome) {})
		_, err := p.Read(make([]byte, 1<<20))
		require.NoError(t, err)
		p.LimitReads() // while what it has sent before is answered
		began := time.Now()
		time.AfterFunc(time.Second, p.Expire) // the close frame is sent
		require.LessOrEqual(t, readAll(p), streams.LastBytes+1<<10)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.NoError(t, p.Close())

		client, server := net.Pipe()
		p = streams.NewReadingPipe(server, func(frames.Outcome) {})
		began = time.Now()
		p.Expire()
		require.Zero(t, readAll(p))
		require.Equal(t, 2*time.Second, time.Since(began), "the client doesn't close its side")
		require.NoError(t, p.Close())
		require.NoError(t, client.Close())
	})
}

// TestPipeOfManyFrames: frames beyond the budget are read later, and if there are always too many the socket ends.
func TestPipeOfManyFrames(t *testing.T) {
	t.Parallel()
	for name, frame := range map[string]string{
		"empty fragments": "\x00\x80\x00\x00\x00\x00", "pings": "\x89\x80\x00\x00\x00\x00",
		"messages": "\x81\x81\x00\x00\x00\x00x",
	} {
		synctest.Test(t, func(t *testing.T) {
			var outcomes []frames.Outcome
			var p *streams.Pipe
			p = flooded(t, strings.Repeat(frame, 100), func(o frames.Outcome) {
				if outcomes = append(outcomes, o); o == frames.Closed {
					go p.Expire()
				}
			})
			began := time.Now()
			bytes := readAll(p)
			require.Equal(t, []frames.Outcome{frames.Slowed, frames.Closed}, outcomes, name)
			require.Less(t, bytes/len(frame), 500+1000*int(time.Since(began)/time.Second+1), name)
			require.NoError(t, p.Close())
		})
	}
}

// TestPriceOfFrames: a message, a control frame and a small fragment have a price, however they arrive.
func TestPriceOfFrames(t *testing.T) {
	t.Parallel()
	frame := func(first byte, size int) string {
		switch head := string([]byte{first}); {
		case size < 126:
			return head + string([]byte{byte(0x80 | size)}) + "mask" + strings.Repeat("\x81", size)
		case size < 1<<16:
			return head + "\xfe" + string([]byte{byte(size >> 8), byte(size)}) + "mask" +
				strings.Repeat("\x81", size)
		default:
			return head + "\xff" + string([]byte{0, 0, 0, 0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}) +
				"mask" + strings.Repeat("\x81", size)
		}
	}
	for _, tt := range []struct {
		text  string
		price int
	}{
		{frame(0x81, 0), 1},
		{frame(0x81, 125) + frame(0x82, 126) + frame(0x81, 1<<16), 3},
		{frame(0x01, 1000) + frame(0x00, 64) + frame(0x00, 1000) + frame(0x80, 70_000), 1},
		{frame(0x01, 0) + frame(0x00, 0) + frame(0x00, 63) + frame(0x80, 0), 4},
		{frame(0x89, 0) + frame(0x8a, 125) + frame(0x88, 2), 3},
	} {
		for _, piece := range []int{1, 3, 1 << 20} {
			require.Equal(t, tt.price, streams.PriceOf(tt.text, piece), "%.20q", tt.text)
		}
	}
}
