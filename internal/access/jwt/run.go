package jwt

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// lookPause is the interval between checks of files.
	lookPause = time.Second
	// settled is how many checks in a row must find a changed file the same as the check before: in a file that is still
	// being written the last keys are missing, and all that waits with their tokens would end.
	settled = 2
)

// file is a file of keys.
type file struct {
	source int
	path   string
	was    os.FileInfo // when it was read
	found  os.FileInfo // at the last check; nil: no file
	equal  int         // checks in a row that found the same file as the check before
	failed bool        // since the last change

	failures atomic.Uint64
}

// read reads the keys.
func (f *file) read() ([]*key, error) {
	opened, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	info, err := opened.Stat()
	if err != nil {
		return nil, err
	}
	f.was = info
	text, err := io.ReadAll(io.LimitReader(opened, maxSetBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSetBytes {
		return nil, fmt.Errorf("has more than %d bytes", maxSetBytes)
	}
	return parseFile(text)
}

// check reports whether the file has not changed since it was read, and if it has, whether it has settled.
func (f *file) check() (current, settles bool, err error) {
	before := f.found
	if f.found, err = os.Stat(f.path); err != nil {
		f.found, f.equal = nil, 0
		return false, false, err
	}
	if !isSame(f.found, before) {
		f.equal = 0
	} else if f.equal < settled {
		f.equal++
	}
	return isSame(f.found, f.was), f.equal == settled, nil
}

func isSame(a, other os.FileInfo) bool {
	return other != nil && os.SameFile(a, other) && a.Size() == other.Size() && a.ModTime().Equal(other.ModTime())
}

// Run keeps the keys current until ctx ends. It returns nil.
func (v *Verifier) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range v.sets {
		g.Go(func() error { return v.keepSet(ctx, s) })
	}
	if len(v.files) > 0 {
		g.Go(func() error { return v.keepFiles(ctx) })
	}
	<-ctx.Done()
	_ = g.Wait() // they end with ctx only
	return nil
}

func (v *Verifier) keepSet(ctx context.Context, s *set) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		pause := refreshPause
		if err := v.fetch(ctx, s, 0); err != nil {
			pause = retryPause
		}
		timer.Reset(pause)
	}
}

func (v *Verifier) keepFiles(ctx context.Context) error {
	ticker := time.NewTicker(lookPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		for _, f := range v.files {
			v.look(f)
		}
	}
}

// look reads a file again if it has changed and is no longer being written. If it can't be read, its keys stay.
func (v *Verifier) look(f *file) {
	current, settles, err := f.check()
	if current {
		f.failed = false
		return
	}
	if err == nil && !settles {
		return
	}
	var keys []*key
	if err == nil {
		if keys, err = f.read(); err == nil {
			err = v.options.fit(keys)
		}
	}
	if err != nil {
		if !f.failed {
			f.failures.Add(1)
			v.log.Error("cannot read the keys of tokens again", "file", f.path, "error", err)
		}
		f.failed = true
		return
	}
	f.failed = false
	v.replace(f.source, keys)
	v.log.Info("keys of tokens read again", "file", f.path, "keys", len(keys))
}
