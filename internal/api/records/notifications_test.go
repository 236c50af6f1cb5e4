package records_test

import (
	"fmt"
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

// TestPublishOnOwnNotifications: with a grant on notifications:{sub} users publish on their own channel, also under
// subjects that are no names, and on no channel of something else, whatever their subject is.
func TestPublishOnOwnNotifications(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p,
		access.ChannelRule{Pattern: `notifications:(?P<user>.+)`, Writers: []string{"${user}"}}))
	granted, err := access.ParseGrants([]byte(`[{"actions":["publish"],"channels":["notifications:{sub}"]}]`))
	require.NoError(t, err)
	for subject, name := range map[string]string{
		"ann": "ann", "auth0|x": "xs--auth0_7Cx", "ann@example.com": "xs--ann_40example.com",
		"topic:5|": "xs--topic_3A5_7C", "global": "", "topic:5": "", "ann:phone": "",
	} {
		for i, grants := range []access.Grants{granted, nil} {
			credential := fmt.Sprintf("%x-%d", subject, i)
			p.Known[credential] = &access.Principal{Kind: access.User, Subject: subject, Grants: grants}
			as := servertest.Bearer(credential)
			if name == "" {
				path := "/v1/channels/notifications:" + subject + "/messages"
				h.Do("POST", path, `{"content":1}`, as).Problem(403, fault.SlugNotGranted)
				continue
			}
			path := "/v1/channels/notifications:" + name + "/messages"
			h.Do("POST", path, `{"content":1}`, as).With(201)
			h.Do("POST", "/v1/channels/notifications:global/messages", `{"content":1}`, as).Problem(403, fault.SlugNotGranted)
		}
	}
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
