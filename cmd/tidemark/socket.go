package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
)

// socket is a Unix socket that only the service's user can connect to.
type socket struct {
	net.Listener
	path string
	made os.FileInfo
	once sync.Once
}

// listenUnix listens on a Unix socket. It replaces one that a process has left behind, and no other file. The socket is
// made in a directory of its own and then renamed, so that nobody can connect to it before its mode is set.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if runtime.GOOS == "windows" { // which ignores the mode of a socket
		return nil, cli.Usagef("%s: unix:%s would be open to other users on Windows: set a host:port", optionAdmin, path)
	}
	l, err := makeSocket(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("listen on unix:%s: %w", path, err)
	}
	return l, nil
}

func makeSocket(ctx context.Context, path string) (l net.Listener, err error) {
	if err := abandoned(ctx, path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil { // it may be the data directory, before Redis has it
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	private := filepath.Join(dir, "s")
	l, err = new(net.ListenConfig).Listen(ctx, "unix", private)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it will have another name
	s := &socket{Listener: l, path: path}
	err = os.Chmod(private, 0o600)
	if err == nil {
		s.made, err = os.Stat(private)
	}
	if err == nil {
		err = os.Rename(private, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// errSocketInUse is errInUse for a Unix socket.
var errSocketInUse = errors.New("another process listens there")

// abandoned returns an error unless there is nothing at the path, or a socket on which no process listens.
func abandoned(ctx context.Context, path string) error {
	found, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case found.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that isn't a socket")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("%w: stop it, or set another %s", errSocketInUse,
			config.InServe(optionAdmin)), conn.Close())
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// Addr returns the path of the socket.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close stops listening, and removes the socket, unless another process has replaced it.
func (s *socket) Close() error {
	err := s.Listener.Close()
	s.once.Do(func() {
		if found, failed := os.Lstat(s.path); failed == nil && os.SameFile(found, s.made) {
			err = errors.Join(err, os.Remove(s.path))
		}
	})
	return err
}
