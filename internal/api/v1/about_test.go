package v1_test

import (
	"net/http"
	"os"
	"path"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestAbout follows the links of the page that a browser shows at the service's address, without a credential.
func TestAbout(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.Closed(t, &servertest.People{}))
	page := h.Do(http.MethodGet, "/", "")
	require.Equal(t, http.StatusOK, page.Status)
	links := regexp.MustCompile(`href="(v1/[^"]+)"`).FindAllStringSubmatch(string(page.Body), -1)
	require.Len(t, links, 2)
	for _, link := range links {
		text, err := os.ReadFile("../../../docs/" + path.Base(link[1]))
		require.NoError(t, err)
		answer := h.Do(http.MethodGet, "/"+link[1], "")
		require.Equal(t, http.StatusOK, answer.Status)
		require.Equal(t, "application/yaml", answer.Header.Get("Content-Type"))
		require.Equal(t, string(text), string(answer.Body))
	}
}
