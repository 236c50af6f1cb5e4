package keys

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Create makes a key that all servers accept, and returns it with its text, which is stored nowhere. Errors: of kind
// Invalid for invalid input, ErrTooManyKeys, and those of the store.
func (r *Registry) Create(ctx context.Context, n NewKey) (k Key, text string, err error) {
	k, text, err = Generate(n, time.Now())
	if err != nil {
		return Key{}, "", err
	}
	record, err := k.record()
	if err != nil {
		return Key{}, "", err
	}
	at, err := r.store.Create(ctx, record, MaxKeys)
	if err != nil {
		return Key{}, "", err
	}
	r.apply(ctx, Entry{Record: &record})
	r.wrote(at)
	return k, text, nil
}

// Delete deletes a key of the store, which revokes it. It may be repeated. Errors: ErrKeyConfigured, ErrNoKey,
// and those of the store.
func (r *Registry) Delete(ctx context.Context, id string) error {
	r.mu.RLock()
	_, configured := r.known.filed[id]
	r.mu.RUnlock()
	switch {
	case configured:
		return ErrKeyConfigured
	case !idPattern.MatchString(id):
		return ErrNoKey
	}
	_, err := r.revoke(ctx, Revocation{Kind: RevokedKey, Name: id})
	return err
}

// Revoke revokes a token or the credentials of a subject, and returns the revocation with its times. A repetition also
// revokes credentials that the subject got since. Errors: of kind Invalid, ErrTooManyRevocations, and those of the
// store.
func (r *Registry) Revoke(ctx context.Context, what Revocation) (Revocation, error) {
	what.At = time.Time{}
	if err := what.check(time.Now()); err != nil {
		return Revocation{}, err
	}
	if !what.Until.IsZero() {
		what.Until = what.Until.Add(Margin)
	}
	return r.revoke(ctx, what)
}

func (r *Registry) revoke(ctx context.Context, what Revocation) (Revocation, error) {
	done, at, err := r.store.Revoke(ctx, what, MaxRevocations)
	if err != nil {
		return Revocation{}, err
	}
	r.apply(ctx, Entry{Revocation: &done})
	r.wrote(at)
	return done, nil
}

// Keys returns a page of the keys, by ID: those after an ID. next is the ID to continue from; "" if there are no more.
func (r *Registry) Keys(ctx context.Context, after string, limit int) (page []Key, next string, err error) {
	if err := r.Refresh(ctx); err != nil {
		return nil, "", err
	}
	r.mu.RLock()
	for id, e := range r.known.stored {
		if id > after && r.known.filed[id] == nil {
			page = append(page, e.Key)
		}
	}
	for id, e := range r.known.filed {
		if id > after {
			page = append(page, e.Key)
		}
	}
	r.mu.RUnlock()
	slices.SortFunc(page, func(a, b Key) int { return cmp.Compare(a.ID, b.ID) })
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID
	}
	return page, next, nil
}

// Revocations returns a page of the revocations in force, by kind and name: those after a cursor. next is the cursor to
// continue from; "" if there are no more.
func (r *Registry) Revocations(ctx context.Context, after string, limit int) (page []Revocation, next string,
	err error) {
	if err := r.Refresh(ctx); err != nil {
		return nil, "", err
	}
	now := time.Now()
	r.mu.RLock()
	for of, revocation := range r.known.revoked {
		if of.String() > after && now.Before(revocation.Until) {
			page = append(page, revocation)
		}
	}
	r.mu.RUnlock()
	slices.SortFunc(page, func(a, b Revocation) int { return cmp.Compare(a.of().String(), b.of().String()) })
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].of().String()
	}
	return page, next, nil
}
