package main

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	entities "github.com/tidemark-dev/tidemark/internal/records"
)

// forum has the data of the forum itself, which a real one would keep in a database and this one in a file. All else is
// Tidemark's.
type forum struct {
	path string

	mu   sync.Mutex
	data struct {
		Users  []*user
		Topics []*topic
		Posts  []*post
	}
}

type user struct {
	entities.Author

	Salt, Password []byte
	Followers      []entities.ID
	Follows        map[string][]entities.ID // topics, authors
}

type topic struct {
	entities.Topic

	Followers, Authors []entities.ID
}

// post is a publication. Its JSON is in the cache, and is sent to the page.
type post struct {
	ID        entities.ID `json:"id"`
	Topic     entities.ID `json:"topic"`
	Author    entities.ID `json:"author"`
	Title     string      `json:"title"`
	Slug      string      `json:"slug"`
	Body      string      `json:"body"`
	CreatedAt int64       `json:"created_at"`
	UpdatedAt int64       `json:"updated_at"`
}

// Errors for users.
var (
	errTaken    = errors.New("somebody has this name already")
	errInput    = errors.New("fill in all fields: at most 100 characters, a text at most 10,000, a password at least 8")
	errPassword = errors.New("the name or the password is wrong")
	errNotFound = errors.New("there is nothing here")
	errNotYours = errors.New("this isn't yours")
)

// openForum reads the forum's file, or begins a new forum.
func openForum(path string) (*forum, error) {
	f := &forum{path: path}
	text, err := os.ReadFile(path) //nolint:gosec // the path is an option of the program
	if !errors.Is(err, fs.ErrNotExist) {
		return f, errors.Join(err, json.Unmarshal(text, &f.data))
	}
	now := time.Now().Unix()
	for i, title := range []string{"Go", "Redis", "Кухня"} {
		t := entities.Topic{ID: idOf(i), Title: title, Slug: strings.ToLower(title), Community: 1, CreatedAt: now,
			UpdatedAt: now}
		f.data.Topics = append(f.data.Topics, &topic{Topic: t})
	}
	return f, f.save()
}

// save writes the file. The caller holds mu.
func (f *forum) save() error {
	text, err := json.Marshal(f.data)
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(f.path+".new", f.path)
}

// idOf returns the ID of the i-th of a sort.
func idOf(i int) entities.ID { return entities.ID(strconv.Itoa(i + 1)) }

// at returns the element of an ID.
func at[T any](all []*T, id entities.ID) (*T, error) {
	n, err := strconv.Atoi(string(id))
	if err != nil || n < 1 || n > len(all) || idOf(n-1) != id {
		return nil, errNotFound
	}
	return all[n-1], nil
}

// fits reports whether texts are there and not too long.
func fits(limit int, texts ...string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool {
		return strings.TrimSpace(text) == "" ||
			len(text) > limit
	})
}

func hash(password string, salt []byte) []byte {
	key, err := pbkdf2.Key(sha256.New, password, salt, 600_000, 32)
	if err != nil {
		panic(err) // impossible outside of FIPS mode
	}
	return key
}

// register adds a user.
func (f *forum) register(name, email, password string) (entities.Author, error) {
	if !fits(100, name, email, password) || len(password) < 8 {
		return entities.Author{}, errInput
	}
	salt := []byte(rand.Text())
	hashed := hash(password, salt)
	f.mu.Lock()
	defer f.mu.Unlock()
	slug := strings.ToLower(name)
	if slices.ContainsFunc(f.data.Users, func(u *user) bool { return u.Slug == slug }) {
		return entities.Author{}, errTaken
	}
	now := time.Now().Unix()
	u := &user{
		Author: entities.Author{ID: idOf(len(f.data.Users)), Name: name, Slug: slug, Email: email, CreatedAt: now,
			UpdatedAt: now},
		Salt: salt, Password: hashed, Follows: map[string][]entities.ID{},
	}
	f.data.Users = append(f.data.Users, u)
	return u.Author, f.save()
}

// login returns the user with a name and a password.
func (f *forum) login(name, password string) (entities.Author, error) {
	f.mu.Lock()
	var u user // a name that doesn't exist takes as long as a wrong password
	if i := slices.IndexFunc(f.data.Users, func(u *user) bool { return u.Slug == strings.ToLower(name) }); i >= 0 {
		u = *f.data.Users[i]
	}
	f.mu.Unlock()
	if subtle.ConstantTimeCompare(hash(password, u.Salt), u.Password) == 0 {
		return entities.Author{}, errPassword
	}
	return u.Author, nil
}

// verified marks the address of a user as verified, if it is still the one that the mail went to.
func (f *forum) verified(id entities.ID, email string) (entities.Author, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u, err := at(f.data.Users, id)
	if err != nil {
		return entities.Author{}, err
	}
	if u.Email == email {
		u.EmailVerified, u.UpdatedAt = true, time.Now().Unix()
	}
	return u.Author, f.save()
}

// author returns a user.
func (f *forum) author(id entities.ID) (entities.Author, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u, err := at(f.data.Users, id)
	if err != nil {
		return entities.Author{}, err
	}
	return u.Author, nil
}

// topic returns a topic.
func (f *forum) topic(id entities.ID) (entities.Topic, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := at(f.data.Topics, id)
	if err != nil {
		return entities.Topic{}, err
	}
	return t.Topic, nil
}

// lists are the lists of IDs that change when somebody follows something: those of the follower and of what is
// followed.
type lists struct{ follows, followers []entities.ID }

// follow makes a user follow a topic or an author, or stop following it.
func (f *forum) follow(id entities.ID, sort string, followed entities.ID, on bool) (lists, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u, err := at(f.data.Users, id)
	if err != nil {
		return lists{}, err
	}
	var followers []entities.ID
	switch sort {
	case "topics":
		t, err := at(f.data.Topics, followed)
		if err != nil {
			return lists{}, err
		}
		t.Followers = with(t.Followers, id, on)
		t.Stat.Followers, followers = int64(len(t.Followers)), t.Followers
	case "authors":
		other, err := at(f.data.Users, followed)
		if err != nil {
			return lists{}, err
		}
		other.Followers = with(other.Followers, id, on)
		followers = other.Followers
	default:
		return lists{}, errNotFound
	}
	u.Follows[sort] = with(u.Follows[sort], followed, on)
	u.Stat.Topics, u.Stat.Authors = int64(len(u.Follows["topics"])), int64(len(u.Follows["authors"]))
	return lists{u.Follows[sort], followers}, f.save()
}

// with returns a copy of ids that has id, or doesn't.
func with(ids []entities.ID, id entities.ID, on bool) []entities.ID {
	out := slices.DeleteFunc(slices.Clone(ids), func(other entities.ID) bool { return other == id })
	if on {
		out = append(out, id)
	}
	return out
}

// publish adds a post of a user.
func (f *forum) publish(author, in entities.ID, title, body string) (post, error) {
	if !fits(100, title) || !fits(10_000, body) {
		return post{}, errInput
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	u, err := at(f.data.Users, author)
	if err != nil {
		return post{}, err
	}
	t, err := at(f.data.Topics, in)
	if err != nil {
		return post{}, err
	}
	now := time.Now().Unix()
	p := &post{ID: idOf(len(f.data.Posts)), Topic: in, Author: author, Title: title, Body: body, CreatedAt: now,
		UpdatedAt: now}
	p.Slug = fmt.Sprintf("%s-%s", t.Slug, p.ID)
	f.data.Posts = append(f.data.Posts, p)
	t.Authors = with(t.Authors, author, true)
	u.Stat.Shouts++
	t.Stat.Shouts++
	t.Stat.Authors = int64(len(t.Authors))
	return *p, f.save()
}

// edit replaces the text of a user's own post.
func (f *forum) edit(author, id entities.ID, title, body string) (post, error) {
	if !fits(100, title) || !fits(10_000, body) {
		return post{}, errInput
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := at(f.data.Posts, id)
	switch {
	case err != nil:
		return post{}, err
	case p.Author != author:
		return post{}, errNotYours
	}
	p.Title, p.Body, p.UpdatedAt = title, body, time.Now().Unix()
	return *p, f.save()
}

// post returns a post.
func (f *forum) post(id entities.ID) (post, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := at(f.data.Posts, id)
	if err != nil {
		return post{}, err
	}
	return *p, nil
}

// postsOf returns the posts of a topic, the last one first.
func (f *forum) postsOf(id entities.ID) []post {
	return f.find(func(p *post) bool { return p.Topic == id })
}

// search returns the posts that have all words of a text.
func (f *forum) search(text string) []post {
	words := strings.Fields(strings.ToLower(text))
	return f.find(func(p *post) bool {
		all := strings.ToLower(p.Title + " " + p.Body)
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(all, word) })
	})
}

func (f *forum) find(wanted func(*post) bool) []post {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := []post{}
	for _, p := range slices.Backward(f.data.Posts) {
		if len(found) < 50 && wanted(p) {
			found = append(found, *p)
		}
	}
	return found
}
