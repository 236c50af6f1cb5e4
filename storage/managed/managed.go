// Package managed runs a redis-server (or valkey-server) as a private child
// process, for a service that is configured without one.
//
// The child listens on a unix socket only, with mode 0600, and keeps its data
// as an append-only file in the data directory, with mode 0600 in a directory
// with mode 0700. Its data survives:
//
//   - a stop of the service, and a SIGTERM of the child: everything;
//   - a SIGKILL of the service: everything, since the child still ends orderly;
//   - a SIGKILL or a crash of the child: everything that Redis had written to
//     its file. Redis writes before it answers, except while a background fsync
//     runs: then it may answer first and write at most 2 s later;
//   - a crash of the machine: everything up to the last fsync, once a second.
//
// Start from [Open]. The package owns three files of the data directory: the
// service holds a lock on tidemark.lock, the child holds one on redis.pid, and
// redis.sock is the socket.
package managed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// The defaults of Options.
const (
	DefaultDataDir     = "./tidemark-data"
	DefaultStopTimeout = 10 * time.Second
)

const lockName = "tidemark.lock"

// dataDirOption is the service's option for Options.DataDir, as messages name it.
const dataDirOption = "--data-dir (TIDEMARK_DATA_DIR)"

var (
	// ErrNoBinary reports that the machine has no Redis to start.
	ErrNoBinary = errors.New("no redis-server or valkey-server found: install one (apt-get install redis-server, or " +
		"brew install redis), or set --redis (TIDEMARK_REDIS) to use a Redis that runs already")

	// ErrTooOld reports that the Redis found is older than 7.0.
	ErrTooOld = errors.New("too old: Redis 7.0 or newer, or Valkey, is needed")

	// ErrLocked reports that another service uses the data directory.
	ErrLocked = errors.New("another tidemark service is using it: stop that one, or set another " + dataDirOption)
)

// Options configures a Server. The zero value is ready for use.
type Options struct {
	// DataDir is the directory of the data; empty means DefaultDataDir. If it is
	// missing, it is created with mode 0700.
	DataDir string

	// Binary is the server to run, a path or a name looked up in PATH. Empty
	// means the first of redis-server and valkey-server that is new enough.
	Binary string

	// Logger logs the events and the output of the child; nil: nothing.
	Logger *slog.Logger

	// StopTimeout is how long a child may take to end when it is asked to,
	// before it is killed; zero means DefaultStopTimeout.
	StopTimeout time.Duration
}

// Server is a Redis that the service runs itself. Open returns it. All methods
// may be called at the same time.
type Server struct {
	binary      string
	dataDir     string // absolute
	socket      socket
	log         *slog.Logger
	stopTimeout time.Duration
	attributes  *syscall.SysProcAttr // of the child

	lock  *flock.Flock
	taken atomic.Bool // by Run or Close: the one that releases

	ready     chan struct{} // closed at the first answer
	readyOnce sync.Once
	done      chan struct{} // closed when Run has ended
	err       error         // Run's; read only after done
}

// Open finds a server binary, creates the data directory if it is missing, and
// locks it. It starts no process. Run or Close release the lock.
//
// Errors: ErrNoBinary, ErrTooOld, ErrLocked, or those of the file system.
func Open(o Options) (*Server, error) {
	if err := checkSystem(); err != nil {
		return nil, err
	}
	binary, err := findBinary(o.Binary, exec.LookPath)
	if err != nil {
		return nil, err
	}
	s := &Server{
		binary:      binary,
		log:         o.Logger,
		stopTimeout: o.StopTimeout,
		attributes:  childAttributes(),
		ready:       make(chan struct{}),
		done:        make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.stopTimeout <= 0 {
		s.stopTimeout = DefaultStopTimeout
	}
	if err := s.openDataDir(o.DataDir); err != nil {
		return nil, err
	}
	if s.socket, err = placeSocket(s.dataDir); err != nil {
		return nil, errors.Join(fmt.Errorf("choose a socket for %s: %w", s.dataDir, err), s.lock.Unlock())
	}
	return s, nil
}

// openDataDir creates and locks the data directory.
func (s *Server) openDataDir(path string) error {
	if path == "" {
		path = DefaultDataDir
	}
	var err error
	if s.dataDir, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("find the data directory %s: %w", path, err)
	}
	if err := os.MkdirAll(s.dataDir, 0o700); err != nil {
		return fmt.Errorf("create the data directory: %w", s.withOwner(err))
	}
	info, err := os.Stat(s.dataDir)
	if err != nil {
		return fmt.Errorf("inspect the data directory: %w", s.withOwner(err))
	}
	if err := s.closeData(); err != nil {
		return fmt.Errorf("make the data private: %w", s.withOwner(err))
	}
	if info.Mode().Perm()&0o077 != 0 {
		s.log.Warn("other users may read the data directory", "dir", s.dataDir, "mode", info.Mode().Perm().String())
	}
	s.lock = flock.New(filepath.Join(s.dataDir, lockName))
	switch locked, err := s.lock.TryLock(); {
	case err != nil:
		return fmt.Errorf("lock the data directory %s: %w", s.dataDir, s.withOwner(err))
	case !locked:
		return fmt.Errorf("lock the data directory %s: %w", s.dataDir, ErrLocked)
	}
	return nil
}

// closeData makes the directory of the append-only file private. One that was restored from a backup may be open to
// other users.
func (s *Server) closeData() error {
	err := os.Chmod(filepath.Join(s.dataDir, appendDir), 0o700) //nolint:gosec // a directory is entered
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Run starts the child and keeps it running until ctx ends: if it ends by
// itself, Run logs that and starts another, after a pause that grows with each
// failure. When ctx ends, Run asks the child to end, kills it after StopTimeout,
// releases the data directory and returns nil. No process is left then.
//
// If a child ends before any has answered, Run returns an error with the last
// lines that it printed. A child that an earlier service left behind is shut
// down first.
//
// Run may be called once. Its context should end after everything that uses the
// Redis has ended.
func (s *Server) Run(ctx context.Context) error {
	if !s.taken.CompareAndSwap(false, true) {
		return errors.New("run the managed redis: it was run or closed before")
	}
	s.err = errors.Join(s.supervise(ctx), s.release())
	close(s.done)
	return s.err
}

// Close releases the data directory if Run was never called. Otherwise it does
// nothing: Run releases it.
func (s *Server) Close() error {
	if !s.taken.CompareAndSwap(false, true) {
		return nil
	}
	s.err = errors.New("the managed redis was closed")
	close(s.done)
	return s.release()
}

func (s *Server) release() error {
	return errors.Join(s.socket.clean(), s.lock.Unlock())
}

// Ready waits until the child has answered a PING for the first time, with its
// data loaded. From then on it returns nil, also while a later child starts.
// After Run has ended it returns an error: Run's own, if there is one.
func (s *Server) Ready(ctx context.Context) error {
	select {
	case <-s.done:
	case <-s.ready:
	case <-ctx.Done():
		return fmt.Errorf("wait for the managed redis: %w", context.Cause(ctx))
	}
	select {
	case <-s.done:
		if s.err != nil {
			return s.err
		}
		return errors.New("the managed redis was stopped")
	default:
		return nil
	}
}

// Socket returns the absolute path of the unix socket. It stays the same for
// the life of the Server.
func (s *Server) Socket() string { return s.socket.path }

// Find returns the address of the Redis that a service runs in a data directory, for another process of its user.
func Find(dataDir string) (address string, err error) {
	path, err := filepath.Abs(dataDir)
	if err != nil {
		return "", err
	}
	dirs := []string{path}
	if dir, err := os.Readlink(filepath.Join(path, linkName)); err == nil && isPrivateDir(dir) {
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		socket := filepath.Join(dir, socketName)
		if _, err := os.Stat(socket); err == nil {
			return addressOf(socket), nil
		}
	}
	return "", fmt.Errorf("no redis is configured, and no service runs one in %s", dataDir)
}

// Address returns the socket as a URL, as in unix:///var/lib/tidemark/redis.sock.
func (s *Server) Address() string { return addressOf(s.socket.path) }

func addressOf(socket string) string { return (&url.URL{Scheme: "unix", Path: socket}).String() }
