package adopt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/counters"
	"github.com/tidemark-dev/tidemark/records/entities"
	"github.com/tidemark-dev/tidemark/records/settings"
	"github.com/tidemark-dev/tidemark/records/tokens"
)

// replaced returns the change c, whose Value is set, or what remains of it: has is the service's text, and old that of
// the source. The error is a refusal.
func replaced(c Change, old Text, has string, was State) (Change, error) {
	c.Adopted = digest(old.Value)
	switch {
	case was.Adopted == c.Adopted: // what the service has done with it since stays
		return Change{}, nil
	case was.NoText:
		return Change{}, errDiffers
	case was.Found && has == old.Value:
		c.Writes = false
	case was.Found && digest(has) == was.Adopted, !was.Found && was.Adopted == "":
		c.Writes = true
	case was.Found:
		return Change{}, errDiffers
	default:
		return Change{}, errRemoved
	}
	return c, nil
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// lives sets the life of a record to what the source's key has left, but most at the longest.
func (c Change) lives(old Text, most time.Duration) Change {
	if c.Life, c.Keep = old.Left, old.Left; old.Left < 0 || old.Left > most {
		c.Life, c.Keep = most, rememberLife
	}
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
	return replaced(Change{Value: string(sealed)}.lives(old, of.TTL), old, string(has), was)
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
		return replaced(Change{Value: old.Value}.lives(old, cacheLife), old, was.Value, was)
	}
}

// views adds what the application has counted since its counter was last taken over.
func views(_ *run, one record, old Text, was State) (Change, error) {
	if err := counters.CheckID("id", one.ref.Parts[0]); err != nil {
		return Change{}, err
	}
	counted, ok := countOf(old.Value)
	has, known := countOf(was.Value)
	before, _ := countOf(was.Adopted)
	switch {
	case !ok:
		return Change{}, refusal("it isn't a counter")
	case counted < before: // it began again, or the source's Redis has lost writes
		return Change{}, refusal(fmt.Sprintf("it is lower than the %d views that were taken over from it", before))
	case was.Found && !known:
		return Change{}, errDiffers
	case counted == before:
		return Change{}, nil
	case has+counted-before > counters.MaxValue:
		return Change{}, counters.ErrRange
	}
	return Change{
		Writes: true, Value: strconv.FormatInt(has+counted-before, 10), Adopted: strconv.FormatInt(counted, 10),
	}, nil
}

// countOf returns the value of a counter.
func countOf(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && n <= counters.MaxValue
}
