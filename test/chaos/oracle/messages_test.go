package oracle_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
)

// history is the record of messages 1 to 4 of one publisher, at clocks of the same number.
func history(rules oracle.Rules) *oracle.Messages {
	m := oracle.NewMessages(rules)
	m.Subscribed("c", "s")
	for seq := 1; seq <= 4; seq++ {
		m.Acknowledged("c", message(seq), int64(seq))
	}
	return m
}

func message(seq int) oracle.Message { return oracle.Message{Publisher: "p", Seq: seq} }

// at is a message at a clock.
func at(seq int, clock int64) oracle.Delivered {
	return oracle.Delivered{Message: message(seq), Clock: clock}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	type counts struct{ lost, doubled, reordered, wrong, repeats int }
	for name, c := range map[string]struct {
		saw            func(m *oracle.Messages)
		want, failover counts
	}{
		"all in order": {
			saw: func(m *oracle.Messages) {
				m.Delivered("c", "s", []oracle.Delivered{at(1, 1), at(2, 2)})
				m.Confirmed("c", "s", 2)
				m.Delivered("c", "s", []oracle.Delivered{at(3, 3), at(4, 4)})
			},
		},
		"the last is lost": {
			saw: func(m *oracle.Messages) {
				m.Delivered("c", "s", []oracle.Delivered{at(1, 1), at(2, 2), at(3, 3)})
			},
			want: counts{lost: 1}, failover: counts{lost: 1},
		},
		"one in the middle is lost": {
			saw: func(m *oracle.Messages) {
				m.Delivered("c", "s", []oracle.Delivered{at(1, 1), at(3, 3), at(4, 4)})
			},
			want: counts{lost: 1}, failover: counts{lost: 1},
		},
		"again before an acknowledgement": {
			saw: func(m *oracle.Messages) {
				m.Delivered("c", "s", []oracle.Delivered{at(1, 1), at(2, 2)})
				m.Delivered("c", "s", []oracle.Delivered{at(1, 1), at(2, 2), at(3, 3), at(4, 4)})
			},
			want: counts{repeats: 2}, failover: counts{repeats: 2},
		},
		"again after an acknowledgement": {
			saw: func(m *oracle.Messages) {
				m.Delivered("c", "s", []oracle.Delivered{at(1, 1), at(2, 2)})
				m.Confirmed("c", "s", 2)
				m.Delivered("c", "s", []oracle.Delivered{at(2, 2), at(3, 3), at(4, 4)})
			},
			want: counts{doubled: 1, repeats: 1}, failover: counts{repeats: 1},
		},
		"at two clocks": {
			saw: func(m *oracle.Messages) {
				m.Delivered("c", "s", []oracle.Delivered{at(1, 1), at(2, 2), at(3, 3), at(4, 4), at(4, 5)})
			},
			want: counts{doubled: 1, repeats: 1}, failover: counts{doubled: 1, repeats: 1, wrong: 1},
		},
		"swapped": {
			saw: func(m *oracle.Messages) {
				m.Delivered("c", "s", []oracle.Delivered{at(1, 1), at(3, 3), at(2, 2), at(4, 4)})
			},
			want: counts{reordered: 1}, failover: counts{reordered: 1},
		},
		"late": {
			saw: func(m *oracle.Messages) {
				m.Delivered("c", "s", []oracle.Delivered{at(2, 2), at(3, 3), at(4, 4)})
				m.Delivered("c", "s", []oracle.Delivered{at(1, 1)})
			},
			want: counts{reordered: 1}, failover: counts{reordered: 1},
		},
		"at another clock than answered": {
			saw: func(m *oracle.Messages) {
				m.Delivered("c", "s", []oracle.Delivered{at(1, 1), at(2, 2), at(3, 3), at(4, 7)})
			},
			want: counts{wrong: 1}, failover: counts{wrong: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for rules, want := range map[oracle.Rules]counts{{}: c.want, {Failover: true}: c.failover} {
				m := history(rules)
				c.saw(m)
				v := m.Verdict()
				require.Equal(t, want, counts{v.Lost, v.Doubled, v.Reordered, v.Wrong, v.Repeats}, "%+v", rules)
				require.Equal(t, v.Lost, m.Missing())
				require.Equal(t, want.lost+want.doubled+want.reordered+want.wrong, v.Faults())
				require.Len(t, v.Examples, v.Faults())
			}
		})
	}
}

// A fail-over may lose a message that was delivered before its publish was acknowledged. The publisher's next try
// publishes it again, at another clock.
func TestMessagesBeforeTheirAcknowledgement(t *testing.T) {
	t.Parallel()
	for rules, faults := range map[oracle.Rules]int{{}: 3, {Failover: true}: 0} {
		m := oracle.NewMessages(rules)
		m.Subscribed("c", "s")
		m.Delivered("c", "s", []oracle.Delivered{at(1, 9)})
		m.Confirmed("c", "s", 9)
		m.Acknowledged("c", message(1), 8)
		m.Delivered("c", "s", []oracle.Delivered{at(1, 8)})
		m.Acknowledged("c", message(2), 9)
		m.Delivered("c", "s", []oracle.Delivered{at(2, 9)})
		require.Equal(t, faults, m.Verdict().Faults(), "%+v", rules)
	}
}

func TestEverySubscriberMustGetAMessage(t *testing.T) {
	t.Parallel()
	m := history(oracle.Rules{})
	m.Subscribed("c", "other")
	m.Delivered("c", "s", []oracle.Delivered{at(1, 1), at(2, 2), at(3, 3), at(4, 4)})
	require.Equal(t, 4, m.Missing())
	require.Equal(t, 4, m.Verdict().Lost)
	require.Len(t, m.Verdict().Examples, 3)
}

func TestExpiredAndRefusedAreFaults(t *testing.T) {
	t.Parallel()
	m := oracle.NewMessages(oracle.Rules{})
	m.Expired(2)
	m.Refused("a receipt")
	require.Equal(t, 3, m.Verdict().Faults())
}

func TestForgedReceiptsAreFaultsUnlessAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := oracle.NewMessages(oracle.Rules{})
		m.ReceiptForged("before")
		m.AllowForged(time.Second)
		m.ReceiptForged("allowed")
		<-time.After(time.Second)
		m.ReceiptForged("after")
		require.Equal(t, []string{"before", "after"}, m.Verdict().Refused)
		require.Equal(t, 1, m.Verdict().Excused)
		require.Equal(t, 2, m.Verdict().Faults())
	})
}
