package receipt_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/receipt"
)

func TestDerived(t *testing.T) {
	t.Parallel()
	key := func(b byte) receipt.Key { return bytes.Repeat([]byte{b}, receipt.MinKeyBytes) }
	ring, err := receipt.NewKeyring(key(1))
	require.NoError(t, err)
	first, other := ring.Derive("one"), ring.Derive("other")
	data := []byte("data")
	mac := first.Sign(data)
	// python3 -c 'import hmac; h=lambda k,d: hmac.digest(k,d,"sha256");
	// print(h(h(h(bytes(32),b"\1"*32),b"one\1"),b"data").hex())'
	require.Equal(t, "a0606bde7de30b6dd1f92a8143cb0b64c72b8c6ea57759418003b20c2db59ad3", hex.EncodeToString(mac))
	require.True(t, first.Signed(data, mac))
	require.False(t, other.Signed(data, mac), "another purpose")
	require.False(t, first.Signed([]byte("Data"), mac))
	require.False(t, first.Signed(data, mac[:16]), "a part of the MAC")
	require.False(t, first.Signed(data, nil))

	require.NoError(t, ring.Replace(key(2), key(1)))
	require.True(t, first.Signed(data, mac), "the old key verifies")
	require.NotEqual(t, mac, first.Sign(data), "the new one signs")
	require.NoError(t, ring.Replace(key(2)))
	require.False(t, first.Signed(data, mac), "the old key is gone")
}
