package managed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	socketName = "redis.sock"
	linkName   = "redis.sock.dir"

	// maxSocketPath is the longest path of a unix socket that all systems accept:
	// 104 bytes on macOS, 108 on Linux, with the final zero. Redis silently
	// truncates longer ones.
	maxSocketPath = 103
)

// socket is the path of the unix socket.
type socket struct {
	path string
	dir  string // a private directory made for the socket alone, or empty
	link string // in the data directory, leads to dir
}

// placeSocket puts the socket into the data directory or, if that makes the path
// too long, into a private directory under the system's temporary one. A
// symbolic link in the data directory leads there, so that a service that starts
// after a crash finds a child that was left behind.
func placeSocket(dataDir string) (socket, error) {
	if path := filepath.Join(dataDir, socketName); len(path) <= maxSocketPath {
		return socket{path: path}, nil
	}
	link := filepath.Join(dataDir, linkName)
	if dir, err := os.Readlink(link); err == nil && isPrivateDir(dir) {
		return socket{path: filepath.Join(dir, socketName), dir: dir, link: link}, nil
	}
	dir, err := makeShortDir(os.TempDir(), "/tmp")
	if err != nil {
		return socket{}, err
	}
	s := socket{path: filepath.Join(dir, socketName), dir: dir, link: link}
	if err := errors.Join(remove(link), os.Symlink(dir, link)); err != nil {
		return socket{}, errors.Join(err, s.clean())
	}
	return s, nil
}

// makeShortDir creates a directory with mode 0700 under the first parent that
// leaves room for the socket's name.
func makeShortDir(parents ...string) (string, error) {
	for _, parent := range parents {
		dir, err := os.MkdirTemp(parent, "tidemark-")
		if err != nil {
			return "", err
		}
		if len(filepath.Join(dir, socketName)) <= maxSocketPath {
			return dir, nil
		}
		if err := os.Remove(dir); err != nil {
			return "", err
		}
	}
	return "", errors.New("no temporary directory has a path short enough for a unix socket")
}

// isPrivateDir reports whether only this user can create files in the directory.
func isPrivateDir(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return false
	}
	return isOwn(info)
}

// clean removes the socket, which a killed child leaves behind, and its directory.
func (s socket) clean() error {
	if s.dir == "" {
		return remove(s.path)
	}
	return errors.Join(remove(s.path), remove(s.dir), remove(s.link))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
