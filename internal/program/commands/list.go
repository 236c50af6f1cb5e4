package commands

import (
	"io"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

// list writes items one after the other: each as a line of JSON at once, or all as the rows of a table at the end.
type list struct {
	to     io.Writer
	asJSON bool
	rows   string // that of the titles first
}

// add adds an item, with its row. The error is that of the output.
func (l *list) add(item any, format string, cells ...any) error {
	if l.asJSON {
		return cli.WriteLine(l.to, item)
	}
	l.rows += cli.Row(format, cells...)
	return nil
}

// addSubscribers adds subscribers of a channel. Their titles are subscriberTitles.
func (l *list) addSubscribers(all []client.SubscriberLag) error {
	for _, s := range all {
		if err := l.add(s, "%s\t%s\t%d\n", s.Name, s.Mark, s.Lag); err != nil {
			return err
		}
	}
	return nil
}

const subscriberTitles = "SUBSCRIBER\tMARK\tLAG\n"

// end writes the table.
func (l *list) end() error {
	if l.asJSON {
		return nil
	}
	return cli.WriteTable(l.to, l.rows)
}
