package redis

import (
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/time/rate"
)

// loginEvery is how often an open connection logs in again, so that it outlives a password which ends.
const loginEvery = time.Minute

// credentials returns the function that rueidis calls for each new connection, and for open ones every loginEvery. If
// the password can't be read, it is that of the last time.
func (o Options) credentials(user string) func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	var last atomic.Value // string
	last.Store(o.Password)
	failures := rate.Sometimes{Interval: loginEvery}
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		password, err := o.ReadPassword()
		if err != nil {
			failures.Do(func() {
				o.Logger.Warn("the password of redis can't be read: logging in with the last one", "error", err)
			})
			password = last.Load().(string)
		} else {
			last.Store(password)
		}
		return rueidis.AuthCredentials{
			Username: user, Password: password, RefreshAfter: time.Now().Add(loginEvery),
		}, nil
	}
}
