package oracle_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
)

// produced returns a publish of one producer.
func produced(epoch, sequence int) oracle.Publish {
	return oracle.Publish{Producer: "w", Epoch: epoch, Sequence: sequence}
}

// single is a publish of one message as it is read.
func single(epoch, sequence int, clock int64) oracle.Part {
	return oracle.Part{Publish: produced(epoch, sequence), Number: 1, Of: 1, Clock: clock}
}

// productions is the record of two epochs: two messages and a batch of two, and a message and the close after clock 9.
// Clocks 5, 7 and 8 are those of others.
func productions() (*oracle.Producers, []oracle.Part) {
	p := oracle.NewProducers()
	p.Reader("c", "r", true)
	p.Begun("c", "w", 0)
	p.Acknowledged("c", produced(0, 0), []int64{1})
	p.Acknowledged("c", produced(0, 1), []int64{2})
	p.Acknowledged("c", produced(0, 2), []int64{3, 4})
	p.Begun("c", "w", 1)
	p.Acknowledged("c", produced(1, 0), []int64{6})
	p.Acknowledged("c", produced(1, 1), nil)
	p.Closed("c", produced(1, 1), 9)
	first := oracle.Part{Publish: produced(0, 2), Number: 1, Of: 2, Clock: 3}
	second := oracle.Part{Publish: produced(0, 2), Number: 2, Of: 2, Clock: 4}
	return p, []oracle.Part{single(0, 0, 1), single(0, 1, 2), first, second, single(1, 0, 6)}
}

func TestProducers(t *testing.T) {
	t.Parallel()
	type counts struct{ lost, doubled, reordered, outlived, late, wrong int }
	for name, c := range map[string]struct {
		read func(all []oracle.Part) []oracle.Part
		also func(p *oracle.Producers)
		want counts
	}{
		"everything in order": {},
		"one is lost": {
			read: func(all []oracle.Part) []oracle.Part { return slices.Delete(all, 1, 2) },
			want: counts{lost: 1},
		},
		"the second message of a batch is lost": {
			read: func(all []oracle.Part) []oracle.Part { return slices.Delete(all, 3, 4) },
			want: counts{lost: 1},
		},
		"the first message of a batch is lost": {
			read: func(all []oracle.Part) []oracle.Part { return slices.Delete(all, 2, 3) },
			want: counts{lost: 1},
		},
		"a batch without an answer is there in part": {
			read: func(all []oracle.Part) []oracle.Part {
				part := oracle.Part{Publish: oracle.Publish{Producer: "other"}, Number: 1, Of: 2, Clock: 5}
				return slices.Insert(all, 4, part)
			},
			want: counts{lost: 1},
		},
		"one without an answer is there": {
			read: func(all []oracle.Part) []oracle.Part {
				other := oracle.Part{Publish: oracle.Publish{Producer: "other"}, Number: 1, Of: 1}
				return slices.Insert(all, 0, other)
			},
		},
		"one is there twice": {
			read: func(all []oracle.Part) []oracle.Part { return slices.Insert(all, 4, single(0, 1, 5)) },
			want: counts{doubled: 1},
		},
		"two in another order": {
			read: func(all []oracle.Part) []oracle.Part {
				all[0], all[1] = single(0, 1, 1), single(0, 0, 2)
				return all
			},
			want: counts{reordered: 1, wrong: 2},
		},
		"a clock behind the one before": {
			read: func(all []oracle.Part) []oracle.Part {
				all[1].Clock = 1
				return all
			},
			want: counts{reordered: 1, wrong: 1},
		},
		"a lower epoch after a higher one": {
			read: func(all []oracle.Part) []oracle.Part { return append(all, single(0, 3, 7), single(0, 4, 8)) },
			want: counts{outlived: 2},
		},
		"one after the close": {
			read: func(all []oracle.Part) []oracle.Part { return append(all, single(1, 2, 10)) },
			want: counts{late: 1},
		},
		"repeats answered alike": {
			also: func(p *oracle.Producers) {
				p.Acknowledged("c", produced(0, 2), []int64{3, 4})
				p.Closed("c", produced(1, 1), 9)
			},
		},
		"a repeat answered with another clock": {
			also: func(p *oracle.Producers) { p.Acknowledged("c", produced(0, 2), []int64{3, 5}) },
			want: counts{wrong: 1},
		},
		"two close the channel": {
			also: func(p *oracle.Producers) { p.Closed("c", produced(1, 0), 9) },
			want: counts{wrong: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, all := productions()
			if c.read != nil {
				all = c.read(all)
			}
			p.Read("c", "r", all)
			p.Ended("c", "r")
			if c.also != nil {
				c.also(p)
			}
			v := p.Verdict()
			require.Equal(t, c.want, counts{v.Lost, v.Doubled, v.Reordered, v.Outlived, v.Late, v.Wrong}, "%v", v.Examples)
			require.Len(t, v.Examples, v.Lost+v.Doubled+v.Reordered+v.Outlived+v.Late+v.Wrong)
			require.Zero(t, v.Unended)
			require.Empty(t, v.Refused)
			require.Equal(t, 5, v.Acknowledged)
			require.Equal(t, 2, v.Epochs)
		})
	}
}

func TestEachReaderIsToldTheEnd(t *testing.T) {
	t.Parallel()
	p, all := productions()
	p.Reader("c", "other", false)
	p.Read("c", "r", all)
	p.Ended("c", "r")
	require.Equal(t, 1, p.Reading())
	require.Equal(t, oracle.ProducerVerdict{Acknowledged: 5, Epochs: 2, Unended: 1}, p.Verdict())
}

func TestOnlyALowerEpochIsFenced(t *testing.T) {
	t.Parallel()
	p, _ := productions()
	p.Fenced("c", produced(0, 3))
	require.Empty(t, p.Verdict().Refused)
	p.Fenced("c", produced(1, 2))
	p.Refused("a gap")
	v := p.Verdict()
	require.Equal(t, 2, v.Fenced)
	require.Equal(t, []string{"fenced without a higher epoch: w/1/2 on c", "a gap"}, v.Refused)
}
