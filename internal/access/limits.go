package access

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limits are the limits of one principal or one address. A zero field is no limit.
type Limits struct {
	Requests       Rate
	PublishedBytes Rate // of the contents of messages
	Waits          int  // requests that wait at the same time
	Tickets        Rate // created
	NewChannels    Rate
	NewSubscribers Rate
}

// Rate is a limit of Count events in the time Per. After a pause Count events may come at once. Zero: no limit.
type Rate struct {
	Count int
	Per   time.Duration // a second, a minute, an hour or a day
}

// String returns the rate as ParseRate reads it.
func (r Rate) String() string {
	count, suffix := r.Count, ""
	for _, u := range countUnits {
		if r.Count%u.count == 0 {
			count, suffix = r.Count/u.count, u.suffix
		}
	}
	for _, u := range rateUnits {
		if r.Per == u.per {
			return strconv.Itoa(count) + suffix + "/" + u.name
		}
	}
	return ""
}

// PerSecond returns the rate in events per second.
func (r Rate) PerSecond() float64 { return float64(r.Count) / r.Per.Seconds() }

var rateUnits = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}}

// countUnits are for numbers of bytes.
var countUnits = []struct {
	suffix string
	count  int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// ParseRate parses a rate such as 100/s, 60/m or 1MiB/s.
func ParseRate(text string) (Rate, error) {
	number, unit, ok := strings.Cut(text, "/")
	r := Rate{}
	for _, u := range rateUnits {
		if unit == u.name {
			r.Per = u.per
		}
	}
	factor := 1
	for _, u := range countUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = rest, u.count
		}
	}
	n, err := strconv.Atoi(number)
	if !ok || r.Per == 0 || err != nil || n < 1 || n > maxCount/factor {
		return Rate{}, fmt.Errorf("%.32q isn't a rate, such as 100/s, 60/m, 1000/h or 1MiB/s", text)
	}
	r.Count = n * factor
	return r, nil
}

// maxCount is the largest count of a rate.
const maxCount = math.MaxInt32

// The names of limits.
const (
	LimitRequests       = "requests"
	LimitPublishedBytes = "publishedBytes"
	LimitWaits          = "waits"
	LimitTickets        = "tickets"
	LimitNewChannels    = "newChannels"
	LimitNewSubscribers = "newSubscribers"
)

// limitNames are the names, in the order of the documentation.
var limitNames = []string{LimitRequests, LimitPublishedBytes, LimitWaits, LimitTickets, LimitNewChannels,
	LimitNewSubscribers}

const off = "off" // no limits

// set sets the limit with a name.
func (l *Limits) set(name, text string) (err error) {
	if name == LimitWaits {
		l.Waits, err = strconv.Atoi(text)
		if err != nil || l.Waits < 1 || l.Waits > math.MaxInt32 {
			return fmt.Errorf("%s: %.32q isn't a positive number", name, text)
		}
		return nil
	}
	rate := l.rate(name)
	if rate == nil {
		return fmt.Errorf("%.32q isn't a limit, which are %s", name, strings.Join(limitNames, ", "))
	}
	if *rate, err = ParseRate(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// ParseLimits parses limits such as requests=100/s,waits=50. Names that are left out have no limit. The text "off", and
// an empty one, mean no limits.
func ParseLimits(text string) (l Limits, err error) {
	if text == off || text == "" {
		return l, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case !ok:
			return Limits{}, fmt.Errorf("%.32q isn't a limit, such as requests=100/s", part)
		case l.text(name) != "":
			return Limits{}, fmt.Errorf("%s: is set twice", name)
		}
		if err := l.set(name, value); err != nil {
			return Limits{}, err
		}
	}
	return l, nil
}

// UnmarshalText is ParseLimits.
func (l *Limits) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLimits(string(text))
	return err
}

// MarshalText returns the limits as ParseLimits reads them.
func (l Limits) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// String returns the limits as ParseLimits reads them.
func (l Limits) String() string {
	parts := make([]string, 0, len(limitNames))
	for _, name := range limitNames {
		if text := l.text(name); text != "" {
			parts = append(parts, name+"="+text)
		}
	}
	return cmp.Or(strings.Join(parts, ","), off)
}

// text returns the text of the limit with a name, or "" if there is none.
func (l *Limits) text(name string) string {
	if name == LimitWaits && l.Waits > 0 {
		return strconv.Itoa(l.Waits)
	}
	if rate := l.rate(name); rate != nil && rate.Count > 0 {
		return rate.String()
	}
	return ""
}

// rate returns the rate with a name, or nil.
func (l *Limits) rate(name string) *Rate {
	switch name {
	case LimitRequests:
		return &l.Requests
	case LimitPublishedBytes:
		return &l.PublishedBytes
	case LimitTickets:
		return &l.Tickets
	case LimitNewChannels:
		return &l.NewChannels
	case LimitNewSubscribers:
		return &l.NewSubscribers
	}
	return nil
}
