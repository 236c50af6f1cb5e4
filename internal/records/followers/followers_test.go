package followers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/followers"
	"github.com/tidemark-dev/tidemark/internal/records/site"
)

// lists are follow lists by their keys.
type lists map[string][]records.ID

var errDown = errors.New("the cache is down")

func (l lists) Get(_ context.Context, kind *records.Kind, id string) ([]records.ID, error) {
	if id == "down" {
		return nil, errDown
	}
	if ids, ok := l[kind.Key(id)]; ok {
		return ids, nil
	}
	return nil, records.ErrNotCached
}

func TestFollowing(t *testing.T) {
	t.Parallel()
	many := make([]records.ID, 1000)
	for i := range many {
		many[i] = records.ID(strconv.Itoa(i))
	}
	f := followers.New(lists{
		"author:follows-topics:{ann}": {"5", "1", "5", "a b", "x{y}", ""}, "author:follows-authors:{ann}": {"bob"},
		"author:follows-shouts:{ann}":  {},
		"author:follows-topics:{many}": many,
		"author:follows-topics:{full}": many[:254],
	}, site.Community().Sources)
	got, err := f.Following(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, followers.Following{Channels: []string{
		"notifications:ann", "notifications:author:bob", "notifications:global", "notifications:topic:1",
		"notifications:topic:5",
	}}, got)

	got, err = f.Following(t.Context(), "nobody")
	require.NoError(t, err)
	require.Equal(t, followers.Following{
		Channels: []string{"notifications:global", "notifications:nobody"},
		Unknown:  []string{"author-follows-topics", "author-follows-authors", "author-follows-shouts"},
	}, got)

	for user, more := range map[string]bool{"many": true, "full": false} {
		got, err = f.Following(t.Context(), user)
		require.NoError(t, err)
		require.Len(t, got.Channels, followers.MaxChannels)
		require.Equal(t, more, got.More)
		require.True(t, slices.IsSorted(got.Channels))
		require.Contains(t, got.Channels, "notifications:"+user)
		require.Contains(t, got.Channels, "notifications:global")
	}
	_, err = f.Following(t.Context(), "down")
	require.ErrorIs(t, err, errDown)
}

// No user name leads to the channel of a topic, or to the global one.
func TestUsersWithoutAChannel(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"", "global", "topic:5", "shout:1", "author:2", "a:b", "a\n",
		strings.Repeat("x", 499)} {
		_, err := followers.Channel(user)
		require.ErrorIs(t, err, &fault.Error{Slug: fault.SlugInvalidID}, "%q", user)
	}
	for user, want := range map[string]string{"ann.1-x_Y": "ann.1-x_Y", "a b": "xs--a_20b", "{x}": "xs--_7Bx_7D",
		"topic:5|": "xs--topic_3A5_7C"} {
		name, err := followers.Channel(user)
		require.NoError(t, err)
		require.Equal(t, "notifications:"+want, name)
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	f := followers.New(lists{
		"topic:followers:{5}": {"ann"}, "author:followers:{5}": {"bob"}, "shout:followers:{5}": {"eve"},
		"topic:followers:{a:b}": {"dan"},
	}, site.Community().Sources)
	for name, want := range map[string]string{
		"notifications:topic:5": "[ann]", "notifications:author:5": "[bob]", "notifications:shout:5": "[eve]",
		"notifications:topic:a:b": "[dan]",
	} {
		got, err := f.Of(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprint(got))
		require.True(t, site.Community().Sources.Followed(name))
	}
	for name, want := range map[string]error{"notifications:topic:6": records.ErrNotCached,
		"notifications:ann": followers.ErrNotFollowed, "notifications:global": followers.ErrNotFollowed,
		"notifications:topic:": followers.ErrNotFollowed, "topic:5": followers.ErrNotFollowed} {
		_, err := f.Of(t.Context(), name)
		require.ErrorIs(t, err, want, name)
	}
	require.False(t, site.Community().Sources.Followed("notifications:topic:"))
	require.False(t, site.Community().Sources.Followed("notifications:ann"))
}
