package records_test

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestNotificationsOfOthers: with the default grants of sessions a user reads their own notifications and the public
// ones, as their own subscriber, and can't publish.
func TestNotificationsOfOthers(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	c, err := config.Load(pflag.NewFlagSet("serve", pflag.ContinueOnError), nil)
	require.NoError(t, err)
	p.Known["ann"] = &access.Principal{Kind: access.Session, Subject: "ann", Grants: c.Records.Sessions.Grants}
	ann := servertest.Bearer("ann")
	const at = "/v1/channels/notifications:"
	for _, name := range []string{"ann", "global", "topic:5", "author:5", "shout:5"} {
		h.Do("PUT", at+name+"/subscribers/ann", "", ann).With(201)
		h.Do("POST", at+name+"/messages", `{"content":1}`, ann).Problem(403, fault.SlugNotGranted)
		h.Do("PUT", at+name+"/messages/m", `1`, ann).Problem(403, fault.SlugNotGranted)
		h.Do("PUT", at+name+"/subscribers/bob", "", ann).Problem(403, fault.SlugNotGranted)
		h.Do("GET", at+name+"/subscribers/copies/messages", "", ann).Problem(403, fault.SlugNotGranted)
	}
	for _, name := range []string{"bob", "ann.2", "anna"} {
		h.Do("PUT", at+name+"/subscribers/ann", "", ann).Problem(403, fault.SlugNotGranted)
	}
	h.Do("GET", "/v1/users/ann/channels", "", ann).With(200)
	for _, user := range []string{"bob", "ann%2Fbob", "ann:2", "*"} {
		h.Do("GET", "/v1/users/"+user+"/channels", "", ann).Problem(403, fault.SlugNotGranted)
	}
	h.Do("PUT", "/v1/cache/author-follows-topics/ann", "[1]", ann).Problem(403, fault.SlugNotGranted)
}

// TestChannelsOfUsersThatAreRefused: no user name gives access to another kind of channel.
func TestChannelsOfUsersThatAreRefused(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for _, user := range []string{"global", "topic:5", "a%0A"} {
		require.Equal(t, "user", h.Do("GET", "/v1/users/"+user+"/channels", "").Problem(400, fault.SlugInvalidID).Field)
	}
	for user, name := range map[string]string{
		"a%20b": "xs--a_20b", "topic:5%7C": "xs--topic_3A5_7C", "%C3%A9": "xs--_C3_A9",
	} {
		require.Contains(t, string(h.Do("GET", "/v1/users/"+user+"/channels", "").With(200).Body), `"notifications:`+name+`"`)
	}
	h.Do("GET", "/v1/users/ann/channels?max=1", "").Problem(400, fault.SlugInvalidQuery)
}
