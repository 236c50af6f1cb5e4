package wire

import (
	"github.com/go-json-experiment/json/jsontext"
)

// DecodeNewTicket decodes the body that makes a ticket. What it gives doesn't refer to body. The error is an
// *InputError with fault.SlugInvalidBody or fault.SlugInvalidTicket.
func DecodeNewTicket(body []byte) (NewTicket, error) {
	var t NewTicket
	err := decodeObject(body, required, func(d *decoder, name []byte) (err error) {
		switch string(name) {
		case `"queue"`:
			t.Queue, err = d.notEmptyText("queue", "leave it out for the queue default")
		case `"id"`:
			t.ID, err = d.notEmptyText("id", "leave it out to have one made")
		case `"ttl"`:
			t.TTL, err = d.ttl()
		default:
			return d.specMember(&t.TicketSpec, name)
		}
		return err
	})
	return t, err
}

// DecodeDefinition checks that a body is a JSON object all of whose strings are characters, and returns it without the
// white space around it. What is in it is judged by others. The error is an *InputError with fault.SlugInvalidBody.
func DecodeDefinition(body []byte) ([]byte, error) {
	d := newDecoder(body)
	defer d.release()
	d.json.Reset(&d.source) // a definition is decoded later: it can't have lone surrogates
	if err := d.notEmpty(); err != nil {
		return nil, err
	}
	if kind := d.json.PeekKind(); kind != jsontext.KindBeginObject && kind != jsontext.KindInvalid {
		return nil, d.wrongType("the body", "an object")
	}
	definition, err := d.value()
	if err != nil {
		return nil, err
	}
	return definition, d.end()
}

func (d *decoder) specMember(s *TicketSpec, name []byte) (err error) {
	switch string(name) {
	case `"searchFields"`:
		err = d.searchFields(&s.SearchFields)
	case `"criteria"`:
		s.Criteria, err = list(d, "criteria", d.criterion)
	case `"statistics"`:
		s.Statistics, err = list(d, "statistics", d.statistic)
	case `"numTeams"`:
		s.NumTeams, err = d.integer("numTeams")
	case `"teamSize"`:
		s.TeamSize, err = d.integer("teamSize")
	case `"extensions"`:
		s.Extensions, err = mapping(d, "extensions", d.rawCopy)
	case `"persistentField"`:
		s.PersistentField, err = mapping(d, "persistentField", d.rawCopy)
	default:
		err = d.unknown(name, "queue, id, searchFields, criteria, statistics, numTeams, teamSize, extensions, persistentField and ttl")
	}
	return err
}

func (d *decoder) searchFields(f *SearchFields) error {
	return d.object("searchFields", func(name []byte) (err error) {
		switch string(name) {
		case `"tags"`:
			f.Tags, err = list(d, "tags", func() (string, error) { return d.text("a tag") })
		case `"doubleArgs"`:
			f.DoubleArgs, err = mapping(d, "doubleArgs", d.double)
		case `"stringArgs"`:
			f.StringArgs, err = mapping(d, "stringArgs", func() (string, error) { return d.text("a string argument") })
		default:
			err = d.unknown(name, "tags, doubleArgs and stringArgs")
		}
		return err
	})
}

func (d *decoder) criterion() (Criterion, error) {
	var c Criterion
	var named, from, to bool
	err := d.object("a criterion", func(name []byte) (err error) {
		switch string(name) {
		case `"name"`:
			named = true
			c.Name, err = d.text("name")
		case `"minValue"`:
			from = true
			c.MinValue, err = d.number("minValue")
		case `"maxValue"`:
			to = true
			c.MaxValue, err = d.number("maxValue")
		default:
			err = d.unknown(name, "name, minValue and maxValue")
		}
		return err
	})
	switch {
	case err != nil:
	case !named:
		err = d.missing("name")
	case !from:
		err = d.missing("minValue")
	case !to:
		err = d.missing("maxValue")
	}
	return c, err
}

func (d *decoder) statistic() (Statistic, error) {
	var s Statistic
	var named, valued bool
	err := d.object("a statistic", func(name []byte) (err error) {
		switch string(name) {
		case `"name"`:
			named = true
			s.Name, err = d.text("name")
		case `"value"`:
			valued = true
			s.Value, err = d.number("value")
		default:
			err = d.unknown(name, "name and value")
		}
		return err
	})
	switch {
	case err != nil:
	case !named:
		err = d.missing("name")
	case !valued:
		err = d.missing("value")
	}
	return s, err
}

// ttl reads "5m".
func (d *decoder) ttl() (TTL, error) {
	text, err := d.text("ttl")
	if err != nil {
		return 0, err
	}
	ttl, err := ParseTTL(text)
	return TTL(ttl), d.place(err)
}
