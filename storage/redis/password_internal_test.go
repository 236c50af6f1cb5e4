package redis

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// Open connections log in again within a minute: a password of 15 minutes can be replaced in its last two.
func TestOpenConnectionsLogInAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		read := func() (string, error) { return "secret", nil }
		got, err := Options{}.credentials("redis", "svc", "", read)(rueidis.AuthCredentialsContext{})
		require.NoError(t, err)
		require.Equal(t, rueidis.AuthCredentials{
			Username: "svc", Password: "secret", RefreshAfter: time.Now().Add(time.Minute),
		}, got)
	})
}
