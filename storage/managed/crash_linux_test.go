package managed

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChildEndsWithKilledService(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"short path": t.TempDir(), "long path": longDir(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := startService(t, dir)
			place, err := placeSocket(dir)
			require.NoError(t, err)
			set(t, connect(t, "unix://"+place.path), "key", "kept")

			kill(t, service)
			awaitChildGone(t, dir) // with no other service to end it

			r := startReady(t, Options{DataDir: dir})
			requireKept(t, r.client(t))
			require.NotContains(t, r.log.String(), leftBehind)
			require.Equal(t, place.path, r.Socket(), "no temporary directory is left over")
		})
	}
}
