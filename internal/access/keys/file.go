package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// maxFileBytes is how large the file of keys may be.
const maxFileBytes = 16 << 20

// file is the file of keys. Its methods may be called by one goroutine at a time.
type file struct {
	path    string
	seen    os.FileInfo // of the file that was read last
	found   os.FileInfo // at the last check; nil: no file
	failing bool        // the last try to read it failed, and that was logged
}

// changed reports whether the file is missing, or differs from the one that was read last and has not changed since the
// previous call: in a file that is still being written a grant could lack its channels, and would then grant all.
func (f *file) changed() bool {
	before := f.found
	f.found, _ = os.Stat(f.path) // nil if it fails, and reading tells why
	return f.found == nil || isSame(f.found, before) && !isSame(f.found, f.seen)
}

func isSame(a, other os.FileInfo) bool {
	return other != nil && os.SameFile(a, other) && a.Size() == other.Size() && a.ModTime().Equal(other.ModTime())
}

// read reads the file, and returns its keys by ID.
func (f *file) read() (map[string]*entry, error) {
	opened, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("the file of API keys: %w", err)
	}
	defer opened.Close() //nolint:errcheck // it was only read
	if f.seen, err = opened.Stat(); err != nil {
		return nil, fmt.Errorf("the file of API keys: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(opened, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("the file of API keys: %w", err)
	}
	keys, err := parseFile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return keys, nil
}

// Append adds a key to a file, which is made if there is none. It changes nothing unless the file is a list of keys before
// and after.
func Append(path string, k Key) (err error) {
	entry, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("encode the key: %w", err)
	}
	opened, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600) //nolint:gosec // the user names the file
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	text, err := io.ReadAll(io.LimitReader(opened, maxFileBytes+1))
	if err != nil {
		return err
	}
	if _, err := parseFile(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	line := fmt.Sprintf("- %s\n", entry)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		line = "\n" + line
	}
	if _, err := parseFile(append(text, line...)); err != nil {
		return fmt.Errorf("with the line %q %s would not be a YAML list: %w", line, path, err)
	}
	if _, err = opened.WriteString(line); err != nil { // perhaps a part of it is there
		err = errors.Join(err, opened.Truncate(int64(len(text))))
	}
	return err
}

// parseFile parses a YAML or JSON list of keys. Its errors name the key by its place in the list, counted from 1.
func parseFile(text []byte) (map[string]*entry, error) {
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("has more than %d bytes", maxFileBytes)
	}
	var values []any
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("isn't a list of API keys: %w", err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) { // keys there would be left out
		return nil, errors.New("has something after the list of API keys")
	}
	if len(values) > MaxKeys {
		return nil, fmt.Errorf("has %d API keys, %d are allowed", len(values), MaxKeys)
	}
	keys := make(map[string]*entry, len(values))
	for i, value := range values {
		k, err := parseValue(value)
		if err == nil && keys[k.ID] != nil {
			err = fmt.Errorf("another one has the ID %s", k.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("API key %d of the list: %w", i+1, err)
		}
		keys[k.ID] = k
	}
	return keys, nil
}

func parseValue(value any) (*entry, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, errors.New("isn't a mapping")
	}
	e := &entry{Key: Key{Configured: true}}
	if err := strictjson.Unmarshal(text, &e.Key); err != nil {
		return nil, err
	}
	e.principal, err = e.check()
	return e, err
}

// readFile reads the file again if it has changed. If it can't be used, the known keys stay valid.
func (r *Registry) readFile(ctx context.Context) {
	if r.file == nil || !r.file.changed() {
		return
	}
	keys, err := r.file.read()
	if err != nil {
		if !r.file.failing {
			r.log.ErrorContext(ctx, "cannot use the file of API keys, those known stay in force", "error", err)
		}
		r.file.failing = true
		return
	}
	r.mu.Lock()
	for id, e := range keys {
		if same := r.known.filed[id]; same != nil && same.equal(e) {
			keys[id] = same
		}
	}
	r.known.filed = keys
	r.mu.Unlock()
	r.file.failing = false
	r.log.InfoContext(ctx, "read the file of API keys", "keys", len(keys))
	r.notify()
}
