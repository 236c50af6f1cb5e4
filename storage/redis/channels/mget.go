package channels

import (
	"fmt"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis"
)

// mget reads the same number of keys of each of several channels: with one command, or in a Cluster with one for each
// channel.
type mget struct {
	client rueidis.Client
	keys   []string // of all channels
	each   int      // keys of a channel
}

// of returns the keys of a channel.
func (m *mget) of(i int) []string { return m.keys[m.each*i : m.each*(i+1)] }
func (m *mget) inCluster() bool   { return m.client.Mode() == rueidis.ClientModeCluster }

// commands returns commands that read at least the channels left.
func (m *mget) commands(pending []int) rueidis.Commands {
	if !m.inCluster() {
		return rueidis.Commands{m.client.B().Mget().Key(m.keys...).Build()}
	}
	commands := make(rueidis.Commands, len(pending))
	for n, i := range pending {
		commands[n] = m.client.B().Mget().Key(m.of(i)...).Build()
	}
	return commands
}

// decode calls one for each channel left, with its values or with the error of reading them, and returns the errors
// that one returns.
func (m *mget) decode(pending []int, read []rueidis.RedisResult,
	decode func(int, []rueidis.RedisMessage, error) error) []error {
	errs := make([]error, len(pending))
	var values, mine []rueidis.RedisMessage
	var err error
	for n, i := range pending {
		if n < len(read) { // the channel's own result, or the only one
			values, err = read[n].ToArray()
		}
		first := m.each * i
		if m.inCluster() {
			first = 0
		}
		if err == nil && len(values) < first+m.each {
			err = fmt.Errorf("%w: MGET returned %d values", redis.ErrReply, len(values))
		}
		if err == nil {
			mine = values[first : first+m.each]
		}
		errs[n] = decode(i, mine, err)
	}
	return errs
}
