package records

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// ID is the ID of an author, a topic or a publication. In JSON it is a number if it has the form of one, as in the
// source, and otherwise a string. On reading, any string is accepted, and so is a number such as 7.0, as Python writes
// one that it holds as a float.
type ID string

var errID = errors.New("must be an ID: a string, or a whole number without a sign")

// maxNumber is the largest integer that every JSON parser represents exactly.
const maxNumber = 1<<53 - 1

// MarshalJSON writes a number or a string.
func (id ID) MarshalJSON() ([]byte, error) {
	if n, err := strconv.ParseUint(string(id), 10, 64); err == nil && n <= maxNumber &&
		strconv.FormatUint(n, 10) == string(id) {
		return []byte(id), nil
	}
	return json.Marshal(string(id))
}

// UnmarshalJSON reads a number or a string.
func (id *ID) UnmarshalJSON(text []byte) error {
	plain := string(text)
	if text[0] == '"' {
		if err := json.Unmarshal(text, &plain); err != nil {
			return err
		}
	} else {
		plain = strings.TrimSuffix(plain, ".0")
		if _, err := strconv.ParseUint(plain, 10, 64); err != nil {
			return errID
		}
	}
	if err := CheckID("id", plain); err != nil {
		return err
	}
	*id = ID(plain)
	return nil
}

// Author is a user of the site. Times are in seconds since 1970.
type Author struct {
	ID            ID         `json:"id"`
	Email         string     `json:"email"`
	Name          string     `json:"name"`
	Slug          string     `json:"slug"`
	Pic           string     `json:"pic"`
	Bio           string     `json:"bio"`
	EmailVerified bool       `json:"email_verified"`
	CreatedAt     int64      `json:"created_at"`
	UpdatedAt     int64      `json:"updated_at"`
	LastSeen      int64      `json:"last_seen"`
	Stat          AuthorStat `json:"stat"`
}

// AuthorStat has the numbers of an author's followed entities and publications.
type AuthorStat struct {
	Topics  int64 `json:"topics"`
	Authors int64 `json:"authors"`
	Shouts  int64 `json:"shouts"`
}

// Topic is a subject of publications.
type Topic struct {
	ID          ID        `json:"id"`
	Title       string    `json:"title"`
	Slug        string    `json:"slug"`
	Description string    `json:"description"`
	Pic         string    `json:"pic"`
	Community   int64     `json:"community"`
	CreatedAt   int64     `json:"created_at"`
	UpdatedAt   int64     `json:"updated_at"`
	Stat        TopicStat `json:"stat"`
}

// TopicStat counts the publications and users of a topic.
type TopicStat struct {
	Shouts    int64 `json:"shouts"`
	Authors   int64 `json:"authors"`
	Followers int64 `json:"followers"`
}

// Shouts is a list of publications. Each is an object of the application's, or an ID.
type Shouts []Shout

// Shout is a publication in the form of the cache: a JSON object, or an ID.
type Shout json.RawMessage

var errShout = errors.New("must be an object or an ID")

// MarshalJSON returns the JSON.
func (s Shout) MarshalJSON() ([]byte, error) { return s, nil }

// UnmarshalJSON keeps the JSON.
func (s *Shout) UnmarshalJSON(text []byte) error {
	if text[0] != '{' && new(ID).UnmarshalJSON(text) != nil {
		return errShout
	}
	*s = append((*s)[:0], text...)
	return nil
}

// Results are the results of a search.
type Results struct {
	Query    string   `json:"query"`
	Results  []Result `json:"results"`
	Total    int64    `json:"total"`
	CachedAt int64    `json:"cached_at"`
}

// Result is one result.
type Result struct {
	Type  string  `json:"type"` // such as shout
	ID    ID      `json:"id"`
	Title string  `json:"title"`
	Slug  string  `json:"slug"`
	Score float64 `json:"score"`
}
