package managed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Names in the data directory. The manifest lists the files of the append-only file that Redis loads. The single file
// of Redis 6 is beside appendDir, and in it once Redis 7 has taken it over as a base file.
const (
	appendDir     = "appendonlydir"
	appendPrefix  = singleName + "."
	manifestName  = appendPrefix + "manifest"
	firstBaseName = appendPrefix + "1.base.rdb"
	snapshotName  = "dump.rdb"
	singleName    = "appendonly.aof"
)

// emptyBaseBytes is the largest first base file without keys, of which the versions of Redis write 88 to 95 bytes. One
// key takes 10 more.
const emptyBaseBytes = 96

// ErrNoManifest reports data that Redis would not load, and overwrite.
var ErrNoManifest = errors.New("there is data without " + appendDir + "/" + manifestName + ": Redis would start empty" +
	" and overwrite it. Restore that file from the backup, or write it as docs/durability.md shows;" +
	" to start without the data, move it away")

// checkData returns ErrNoManifest if the data directory has data of an append-only file, or a snapshot, but no
// manifest. The files of a first start that was cut short are no data: Redis writes the first base file before the
// first command, but with all data if the append-only file is switched on later. A snapshot is no data beside the
// single append-only file of Redis 6, which Redis loads.
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
		if f.Name() != singleName && !strings.HasPrefix(f.Name(), appendPrefix) {
			continue
		}
		empty := int64(0)
		if f.Name() == firstBaseName {
			empty = emptyBaseBytes
		}
		if info, err := f.Info(); err != nil || info.Size() > empty {
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

// withOwner adds to an error of the file system, if this user may not do that in the data directory, who may, and what
// to do. A directory of the host that is mounted into a container is mostly root's.
func (s *Server) withOwner(err error) error {
	var failed *fs.PathError
	if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &failed) {
		return err
	}
	for path := failed.Path; ; path = filepath.Dir(path) {
		info, statErr := os.Stat(path)
		if owner, ok := ownerOf(info); statErr == nil && ok {
			return fmt.Errorf("%w: %s is of user %d, with mode %v, and the service runs as user %d: make it that user's with "+
				`"chown -R %d:%d %s", in a container on the directory of the host that is mounted there, or set another %s`,
				err, path, owner, info.Mode(), os.Getuid(), os.Getuid(), os.Getgid(), s.dataDir, dataDirOption)
		}
		if path == filepath.Dir(path) {
			return err
		}
	}
}

// has reports whether the data directory has a file.
func (s *Server) has(name string) bool {
	_, err := os.Stat(filepath.Join(s.dataDir, name))
	return err == nil
}
