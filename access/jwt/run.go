package jwt

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// lookPause is the interval between checks of files.
const lookPause = time.Second

// file is a file of keys.
type file struct {
	source int
	path   string
	was    os.FileInfo // when it was read
	failed bool        // since the last change
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

// isCurrent reports whether the file has not changed since it was read.
func (f *file) isCurrent() (bool, error) {
	info, err := os.Stat(f.path)
	return err == nil && os.SameFile(info, f.was) && info.ModTime().Equal(f.was.ModTime()) &&
		info.Size() == f.was.Size(), err
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

// look reads a file again if it has changed. If it can't be read, as while it is being replaced, its keys stay.
func (v *Verifier) look(f *file) {
	current, err := f.isCurrent()
	if current {
		f.failed = false
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
			v.log.Error("cannot read the keys of tokens again", "file", f.path, "error", err)
		}
		f.failed = true
		return
	}
	f.failed = false
	v.replace(f.source, keys)
	v.log.Info("keys of tokens read again", "file", f.path, "keys", len(keys))
}
