package managed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Names in the data directory. The manifest lists the files of the append-only file that Redis loads.
const (
	appendDir    = "appendonlydir"
	appendPrefix = "appendonly.aof."
	manifestName = appendPrefix + "manifest"
	snapshotName = "dump.rdb"
	singleName   = "appendonly.aof"
)

// ErrNoManifest reports data that Redis would not load, and overwrite.
var ErrNoManifest = errors.New("there is data without " + appendDir + "/" + manifestName + ": Redis would start empty" +
	" and overwrite it. Restore that file from the backup, or write it as docs/operations.md shows;" +
	" to start without the data, move it away")

// checkData returns ErrNoManifest if the data directory has data of an append-only file, or a snapshot, but no
// manifest. The files of a first start that was cut short are no data, and a snapshot is none beside the single
// append-only file of Redis 6, which Redis loads.
func (s *Server) checkData() error {
	_, err := os.Stat(filepath.Join(s.dataDir, appendDir, manifestName))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := os.ReadDir(filepath.Join(s.dataDir, appendDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var found []string
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), appendPrefix) || f.Name() == appendPrefix+"1.base.rdb" {
			continue // the first base file has no keys: it is written before the first command
		}
		if info, err := f.Info(); err != nil || info.Size() > 0 {
			found = append(found, filepath.Join(appendDir, f.Name()))
		}
	}
	if s.has(snapshotName) && !s.has(singleName) {
		found = append(found, snapshotName)
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNoManifest, strings.Join(found, ", "))
}

// has reports whether the data directory has a file.
func (s *Server) has(name string) bool {
	_, err := os.Stat(filepath.Join(s.dataDir, name))
	return err == nil
}
