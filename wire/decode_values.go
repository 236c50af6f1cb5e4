package wire

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// The functions of this file read parts of bodies. If a part breaks a rule of its own, the error is an *InputError
// without its place, which the decoder adds.

// The members of objects in bodies.
var (
	draftMembers     = []string{"id", "content"}
	subscribeMembers = []string{"from"}
	ackMembers       = []string{"receiptHandle"}
	nextMembers      = []string{"receiptHandle", "max", "wait"}
	fetchMembers     = []string{"from", "max", "wait"}
	sourceMembers    = []string{"channel", "subscriber", "receiptHandle"}
	ticketMembers    = []string{
		"queue", "id", "ttl", "searchFields", "criteria", "statistics", "numTeams", "teamSize", "players", "extensions",
		"persistentField",
	}
	searchMembers    = []string{"tags", "doubleArgs", "stringArgs"}
	criterionMembers = []string{"name", "minValue", "maxValue"}
	statisticMembers = []string{"name", "value"}
	keyMembers       = []string{"description", "grants", "limits", "expires"}

	revocationMembers = []string{"jti", "subject", "until"}
)

// draft reads a message. Its content is nil if there is none.
func draft(d *strictjson.Decoder) (Draft, error) {
	var m Draft
	err := d.Object(draftMembers, func(name string) (err error) {
		if name == "content" {
			m.Content, err = d.Raw()
			return err
		}
		if m.ID, err = d.String(); err == nil && m.ID == "" {
			err = d.Refuse(&InputError{Slug: fault.SlugInvalidMessageID,
				Detail: "the id is empty: leave it out to have one made"})
		}
		return err
	})
	return m, err
}

func from(d *strictjson.Decoder) (From, error) {
	var f From
	text, err := d.Raw()
	if err != nil {
		return f, err
	}
	if err := f.UnmarshalJSON(text); err != nil {
		return f, d.Refuse(err)
	}
	return f, nil
}

func maxCount(d *strictjson.Decoder) (int, error) {
	text, err := d.Raw()
	if err != nil {
		return 0, err
	}
	n, err := ParseMax(string(text))
	if err != nil {
		return 0, d.Refuse(err)
	}
	return n, nil
}

// wait reads "20s", "20" or 20.
func wait(d *strictjson.Decoder) (Wait, error) {
	text, err := stringOrRaw(d)
	if err != nil {
		return 0, err
	}
	w, err := ParseWait(text)
	if err != nil {
		return 0, d.Refuse(err)
	}
	return Wait(w), nil
}

// UnmarshalJSON reads "20s", "20" or 20.
func (w *Wait) UnmarshalJSON(text []byte) error {
	err := strictjson.Decode(text, func(d *strictjson.Decoder) (err error) {
		*w, err = wait(d)
		return err
	})
	var e *strictjson.Error
	if errors.As(err, &e) && e.Cause != nil {
		return e.Cause // whoever decodes the body adds the place
	}
	return err
}

func stringOrRaw(d *strictjson.Decoder) (string, error) {
	if d.IsString() {
		return d.String()
	}
	raw, err := d.Raw()
	return string(raw), err
}

func ttl(d *strictjson.Decoder) (TTL, error) {
	text, err := d.String()
	if err != nil {
		return 0, err
	}
	t, err := ParseTTL(text)
	if err != nil {
		return 0, d.Refuse(err)
	}
	return TTL(t), nil
}

// notEmpty reads a name of a ticket, which is refused with detail if it is empty.
func notEmpty(d *strictjson.Decoder, detail string) (string, error) {
	text, err := d.String()
	if err == nil && text == "" {
		err = d.Refuse(&InputError{Slug: fault.SlugInvalidTicket, Detail: detail})
	}
	return text, err
}

func specMember(d *strictjson.Decoder, s *matchmaking.Spec, name string) (err error) {
	switch name {
	case "searchFields":
		err = readSearchFields(d, &s.SearchFields)
	case "criteria":
		s.Criteria, err = strictjson.List(d, criterion)
	case "statistics":
		s.Statistics, err = strictjson.List(d, statistic)
	case "numTeams":
		s.NumTeams, err = d.Int()
	case "teamSize":
		s.TeamSize, err = d.Int()
	case "players":
		s.Players, err = d.Int()
	case "extensions":
		s.Extensions, err = strictjson.Map(d, rawCopy)
	case "persistentField":
		s.PersistentField, err = strictjson.Map(d, rawCopy)
	}
	return err
}

func readSearchFields(d *strictjson.Decoder, f *matchmaking.SearchFields) error {
	return d.Object(searchMembers, func(name string) (err error) {
		switch name {
		case "tags":
			f.Tags, err = strictjson.List(d, (*strictjson.Decoder).String)
		case "doubleArgs":
			f.DoubleArgs, err = d.Doubles()
		case "stringArgs":
			f.StringArgs, err = strictjson.Map(d, (*strictjson.Decoder).String)
		}
		return err
	})
}

func criterion(d *strictjson.Decoder) (matchmaking.Criterion, error) {
	var c matchmaking.Criterion
	var named, from, to bool
	err := d.Object(criterionMembers, func(name string) (err error) {
		switch name {
		case "name":
			named = true
			c.Name, err = d.String()
		case "minValue":
			from = true
			c.MinValue, err = d.Float()
		case "maxValue":
			to = true
			c.MaxValue, err = d.Float()
		}
		return err
	})
	switch {
	case err != nil:
	case !named:
		err = d.Missing("name")
	case !from:
		err = d.Missing("minValue")
	case !to:
		err = d.Missing("maxValue")
	}
	return c, err
}

func statistic(d *strictjson.Decoder) (matchmaking.Statistic, error) {
	var s matchmaking.Statistic
	var named, valued bool
	err := d.Object(statisticMembers, func(name string) (err error) {
		switch name {
		case "name":
			named = true
			s.Name, err = d.String()
		case "value":
			valued = true
			s.Value, err = d.Float()
		}
		return err
	})
	switch {
	case err != nil:
	case !named:
		err = d.Missing("name")
	case !valued:
		err = d.Missing("value")
	}
	return s, err
}

// rawCopy reads a value that doesn't refer to the body.
func rawCopy(d *strictjson.Decoder) (json.RawMessage, error) {
	value, err := d.Raw()
	return bytes.Clone(value), err
}
