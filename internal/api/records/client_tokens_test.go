package records_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// forgetful drops the first answer to each path.
type forgetful map[string]bool

func (f forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || f[r.URL.Path] {
		return answer, err
	}
	f[r.URL.Path] = true
	_, err = io.Copy(io.Discard, answer.Body)
	return nil, errors.Join(err, answer.Body.Close(), errors.New("the answer is lost"))
}

// TestClientOfTokens: the tries of a call of the Go client count as one, also if the first answer is lost.
func TestClientOfTokens(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, withKeyset(newKeyset(t)))
	service, err := client.New(h.URL, client.WithHTTPClient(&http.Client{Transport: forgetful{}}),
		client.WithRetry(client.RetryPolicy{MinPause: 1}))
	require.NoError(t, err)
	defer service.Close()
	c := records.New(service)

	issued, err := c.IssueVerification(t.Context(), "ann/{b}", records.PasswordReset, []byte(`{"a":1}`))
	require.NoError(t, err)
	v, err := c.TakeVerification(t.Context(), records.PasswordReset, issued.Token)
	require.NoError(t, err)
	require.Equal(t, records.Verification{UserID: "ann/{b}", Data: []byte(`{"a":1}`)}, v)
	_, err = c.TakeVerification(t.Context(), records.PasswordReset, issued.Token)
	require.ErrorIs(t, err, records.ErrNoVerification)
	_, err = c.IssueVerification(t.Context(), "ann", "other", nil)
	require.ErrorIs(t, err, records.ErrInvalidToken)

	state, err := c.CreateOAuthState(t.Context(), records.NewOAuthState{Provider: "vk"})
	require.NoError(t, err)
	found, err := c.TakeOAuthState(t.Context(), state.State)
	require.NoError(t, err)
	require.Equal(t, "vk", found.Provider)
	_, err = c.TakeOAuthState(t.Context(), state.State)
	require.ErrorIs(t, err, records.ErrNoOAuthState)

	ends, err := c.PutOAuthTokens(t.Context(), "ann", "vk", records.OAuthTokens{AccessToken: "a"})
	require.NoError(t, err)
	require.True(t, !ends.AccessExpiresAt.IsZero() && ends.RefreshExpiresAt.IsZero())
	tokens, err := c.OAuthTokens(t.Context(), "ann", "vk")
	require.NoError(t, err)
	require.Equal(t, records.OAuthTokens{AccessToken: "a"}, tokens.OAuthTokens)
	require.NoError(t, c.DeleteOAuthTokens(t.Context(), "ann", "vk"))
	_, err = c.OAuthTokens(t.Context(), "ann", "vk")
	require.ErrorIs(t, err, records.ErrNoOAuthTokens)
}

// TestClientOfSettings: lists and backups of more than a page, and of more than the limit of a call.
func TestClientOfSettings(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	service, err := client.New(h.OnAdmin().URL, client.WithHTTPClient(&http.Client{Transport: forgetful{}}),
		client.WithRetry(client.RetryPolicy{MinPause: 1}))
	require.NoError(t, err)
	defer service.Close()
	c := records.New(service)
	var all []records.SavedSetting
	for n := range 150 {
		all = append(all, records.SavedSetting{Name: fmt.Sprintf("LOG_%03d", n), Value: new(strings.Repeat("v", 40*n))})
	}
	all = append(all, records.SavedSetting{Name: "FEATURE_X", Value: new("on")})
	n, err := c.ImportSettings(t.Context(), all)
	require.NoError(t, err)
	require.Equal(t, len(all), n)
	listed, err := c.Settings(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, listed, len(all))
	saved, err := c.ExportSettings(t.Context(), "features")
	require.NoError(t, err)
	no := false
	require.Equal(t, []records.SavedSetting{{Name: "FEATURE_X", Value: new("on"), Secret: &no}}, saved)
	s, err := c.PutSetting(t.Context(), "FEATURE_X", "off", nil)
	require.NoError(t, err)
	require.Nil(t, s.Value)
	require.NoError(t, c.DeleteSetting(t.Context(), "FEATURE_X"))
	_, err = c.Setting(t.Context(), "FEATURE_X")
	require.ErrorIs(t, err, records.ErrNoSetting)
	n, err = c.ImportSettings(t.Context(), append(all, records.SavedSetting{Name: "A:B", Value: new("")}))
	require.ErrorIs(t, err, records.ErrInvalidID)
	require.Less(t, n, len(all)+1)
}
