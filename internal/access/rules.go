package access

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/tidemark-dev/tidemark/internal/names"
	"github.com/tidemark-dev/tidemark/internal/patterns"
)

// everybody is the entry in the lists of a rule that includes principals without credentials, and the prefix of their
// subscribers.
const everybody = "anonymous"

// ChannelRule lists the readers and writers of the channels whose whole name matches Pattern. Of several rules, the
// first one that matches a channel applies.
type ChannelRule struct {
	Pattern string // regular expression in the syntax of package regexp
	// Readers may subscribe, each under its own name, and describe. The entry "*" includes everybody with a credential,
	// "anonymous" everybody. Any other entry is a pattern of users' subjects, and one without "*" also of what
	// Principal.ChannelName returns: "*" in it matches any text, and $1, $name and ${name} are replaced by the text that
	// the group captured in the channel's name, which matches literally. So "**" includes all users, but no API keys.
	Readers    []string
	Writers    []string // may publish; as Readers
	QueryToken bool     // a token may be sent in the query: for browsers, which can't always set a header
}

// rule is a ChannelRule, compiled.
type rule struct {
	pattern          *regexp.Regexp
	readers, writers []reader
	queryToken       bool
}

// reader is an entry in a list of a rule.
type reader struct {
	anyone, everybody bool
	subjects          Pattern
}

// Rules are compiled rules, in order.
type Rules []rule

// CompileRules returns the rules. Its error names the rule and the key that is wrong.
func CompileRules(rules []ChannelRule) (Rules, error) {
	compiled := make(Rules, len(rules))
	for i, r := range rules {
		pattern, err := patterns.Compile(r.Pattern, names.ChannelCanContain)
		if err != nil {
			return nil, fmt.Errorf("channels[%d].pattern: %w", i, err)
		}
		compiled[i] = rule{pattern: pattern, queryToken: r.QueryToken}
		if compiled[i].readers, err = compileReaders(pattern, r.Readers); err != nil {
			return nil, fmt.Errorf("channels[%d].readers%w", i, err)
		}
		if compiled[i].writers, err = compileReaders(pattern, r.Writers); err != nil {
			return nil, fmt.Errorf("channels[%d].writers%w", i, err)
		}
	}
	return compiled, nil
}

func compileReaders(pattern *regexp.Regexp, list []string) ([]reader, error) {
	if len(list) > MaxPatterns {
		return nil, fmt.Errorf(": %d patterns, at most %d are allowed", len(list), MaxPatterns)
	}
	readers := make([]reader, len(list))
	for i, text := range list {
		_, err := patterns.In(pattern, text)
		switch {
		case text == "":
			return nil, fmt.Errorf("[%d]: is empty", i)
		case len(text) > MaxPatternBytes:
			return nil, fmt.Errorf("[%d]: has %d bytes, at most %d are allowed", i, len(text), MaxPatternBytes)
		case err != nil:
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		if err := checkReader(text); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		readers[i] = reader{anyone: text == "*", everybody: text == everybody}
		readers[i].subjects = compile(text, patterns.Cut,
			func(name string) piece { return piece{text: name, capture: true} })
	}
	return readers, nil
}

// checkReader returns an error if an entry is written for another language of patterns.
func checkReader(text string) error {
	switch braces := inserted.FindStringSubmatchIndex(text); {
	case text == ".*", text == ".+":
		return fmt.Errorf("%q is a regular expression: write \"*\" for everybody with a credential", text)
	case braces != nil && (braces[0] == 0 || text[braces[0]-1] != '$'):
		name := text[braces[2]:braces[3]]
		return fmt.Errorf("%.64q has {%s}, as grants do: a reader or writer is a subject, and ${%s} in it what a group "+
			"(?P<%[2]s>…) of the rule's pattern captured", text, name, name)
	}
	return nil
}

// includes reports whether the reader's pattern matches the subject, or is the user's name in channels. A star doesn't
// stand for a part of such a name: xs-* would be everybody whose subject is no name. A subject that has the form of other
// subjects' names isn't compared itself: it would match their channels.
func (l *reader) includes(r *request) bool {
	subject := r.principal.Subject
	isName := len(l.subjects.parts) == 1 && l.subjects.matches(r.subject, r)
	return isName || !names.IsOfSubject(subject) && l.subjects.matches(subject, r)
}

// include reports whether the list includes the principal of the request.
func include(list []reader, r *request) bool {
	p := r.principal
	for i := range list {
		switch {
		case list[i].everybody:
			return true
		case p.Kind == Nobody, p.Kind == TicketHolder:
		case list[i].anyone, p.isUser() && list[i].includes(r):
			return true
		}
	}
	return false
}

// capture returns where the text begins and ends that the group with this name or number captured, or twice 0.
func (r *rule) capture(name string, match []int) (begin, end int) {
	n := r.pattern.SubexpIndex(name)
	if n < 0 {
		var err error
		if n, err = strconv.Atoi(name); err != nil || n < 0 {
			return 0, 0
		}
	}
	if 2*n+1 >= len(match) || match[2*n] < 0 {
		return 0, 0
	}
	return match[2*n], match[2*n+1]
}
