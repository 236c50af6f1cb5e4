package adopt

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/counters"
	"github.com/tidemark-dev/tidemark/records/entities"
	"github.com/tidemark-dev/tidemark/records/settings"
	"github.com/tidemark-dev/tidemark/records/tokens"
)

// replaced returns the change c, whose Value is set, or what remains of it: has is the service's text, and old that of
// Discours.io. The error is a refusal.
func replaced(c Change, old Text, has string, was State) (Change, error) {
	c.Adopted = digest(old.Value)
	known := was.Adopted == c.Adopted
	switch {
	case known && !was.Found && was.ended():
		c.Keep = rememberLife
		return c.remembered(was), errEnded
	case known: // what the service has done with it since stays
		return c.remembered(was), nil
	case was.WrongType:
		return Change{}, errDiffers
	case was.Found && has == old.Value:
		return c.remembered(was), nil
	case was.Found && digest(has) == was.Adopted, !was.Found && (was.Adopted == "" || was.ended()):
		c.Writes = true
		return c, nil
	case was.Found:
		return Change{}, errDiffers
	}
	return Change{}, errRemoved
}

// remembered returns what remains of the change c if the record stays: nothing if it is remembered long enough.
func (c Change) remembered(was State) Change {
	if c.Keep > 0 && was.Found && was.Left > 0 {
		c.Keep = was.Left + rememberLife
	}
	if was.Adopted == c.Adopted && (c.Keep-was.Keeps).Abs() <= rememberSlack {
		return Change{}
	}
	return c
}

// ended reports whether a record that was taken over, and ends by itself, has ended. Until then, what was taken over
// stays for longer than rememberLife.
func (s State) ended() bool { return s.Adopted != "" && s.Keeps > 0 && s.Keeps <= rememberLife }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// lives sets the life of a record to what Discours.io's key has left, but most at the longest.
func (c Change) lives(old Text, most time.Duration) Change {
	if c.Life = old.Left; old.Left < 0 || old.Left > most {
		c.Life = most
	}
	c.Keep = c.Life + rememberLife
	return c
}

func setting(_ *run, one record, old Text, was State) (Change, error) {
	if err := (settings.New{Name: one.ref.Parts[0], Value: old.Value}).Check(); err != nil {
		return Change{}, err
	}
	return replaced(Change{Value: old.Value}, old, was.Value, was)
}

func token(r *run, one record, old Text, was State) (Change, error) {
	of, user, provider := one.kind.of, one.ref.Parts[0], one.ref.Parts[1]
	switch {
	case r.Sealer == nil:
		return Change{}, refusal("there is no keyset to encrypt it with (option keyset)")
	case !slices.Contains(r.Providers, provider):
		return Change{}, refusal("its provider isn't one of the option oauth-providers")
	case old.Value == "" || len(old.Value) > tokens.MaxTokenBytes || !records.IsText(old.Value):
		return Change{}, refusal(fmt.Sprintf("it isn't text of 1 to %d bytes", tokens.MaxTokenBytes))
	}
	if err := records.CheckID("user", user); err != nil {
		return Change{}, err
	}
	purpose := tokens.Owner{User: user, Provider: provider}.Purpose(of)
	sealed, err := r.Sealer.Seal([]byte(old.Value), purpose)
	if err != nil {
		return Change{}, fmt.Errorf("encrypt a token: %w", err)
	}
	var has []byte
	if was.Found {
		if has, err = r.Sealer.Open([]byte(was.Value), purpose); err != nil {
			return Change{}, errDiffers
		}
	}
	c := Change{Value: string(sealed)}.lives(old, of.TTL)
	if was.Found && string(has) == old.Value && was.Left > 0 && c.Life > was.Left+of.TTL/10 {
		c.Writes, c.Adopted = true, digest(old.Value) // the application has stored it again
		return c, nil
	}
	return replaced(c, old, string(has), was)
}

// cached returns the function that takes over cached values of a kind. They end, since the application doesn't remove
// the service's value when an entity changes.
func cached(of *entities.Kind) func(*run, record, Text, State) (Change, error) {
	return func(_ *run, one record, old Text, was State) (Change, error) {
		if _, err := of.ID(one.ref.Parts[0]); err != nil {
			return Change{}, err
		}
		if err := of.Check([]byte(old.Value)); err != nil {
			return Change{}, err
		}
		if !was.Found && was.Adopted != digest(old.Value) {
			was.Adopted = "" // the application has cached another value since
		}
		c, err := replaced(Change{Value: old.Value}.lives(old, cacheLife), old, was.Value, was)
		if errors.Is(err, errEnded) {
			err = nil // it can be cached again
		}
		return c, err
	}
}

// beingRemoved ends what is remembered of views whose key of Discours.io is about to be removed.
const beingRemoved = " removing"

// views adds what the application has counted since its counter was last taken over.
func views(r *run, one record, old Text, was State) (Change, error) {
	if err := counters.CheckID("id", one.ref.Parts[0]); err != nil {
		return Change{}, err
	}
	counted, ok := countOf(old.Value)
	has, known := countOf(was.Value)
	adopted, removing := strings.CutSuffix(was.Adopted, beingRemoved)
	remembered, _ := countOf(adopted)
	before := remembered
	if removing && ok && counted < before {
		before = 0 // a removal has stopped between its steps, and the application began again
	}
	switch {
	case !ok:
		return Change{}, refusal("it isn't a counter")
	case counted < before: // it began again, or Discours.io's Redis has lost writes
		return Change{}, refusal(fmt.Sprintf("it is lower than the %d views that were taken over from it", before))
	case was.Found && !known:
		return Change{}, errDiffers
	case has+counted-before > counters.MaxValue:
		return Change{}, counters.ErrRange
	}
	c := Change{Value: strconv.FormatInt(has+counted-before, 10), Adopted: strconv.FormatInt(counted, 10)}
	c.Writes = counted > before
	switch {
	case !c.Writes && (was.Adopted == "" || counted == remembered && (removing || !r.Remove)):
		return Change{}, nil
	case r.Remove:
		c.Adopted += beingRemoved
	}
	return c, nil
}

// countOf returns the value of a counter.
func countOf(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && n <= counters.MaxValue
}
