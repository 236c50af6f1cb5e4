package settings

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// Category is the subject of a setting. It follows from its name.
type Category string

// The categories of Discours.io, and Other for the rest.
const (
	Database     Category = "database"
	Auth         Category = "auth"
	Redis        Category = "redis"
	Search       Category = "search"
	Integrations Category = "integrations"
	Security     Category = "security"
	Logging      Category = "logging"
	Features     Category = "features"
	Other        Category = "other"
)

// families are the beginnings of names by category: those of Discours.io's variables. A name is of a family if it is
// equal to it, or begins with it and an underscore.
var families = []struct {
	category Category
	begins   []string
}{
	{Database, []string{"DB", "DATABASE", "POSTGRES"}},
	{Auth, []string{"JWT", "OAUTH", "AUTH", "SESSION"}},
	{Redis, []string{"REDIS"}},
	{Search, []string{"SEARCH", "ELASTICSEARCH"}},
	{Integrations, []string{"GOOGLE", "SENTRY", "SMTP"}},
	{Security, []string{"CORS", "ALLOWED"}},
	{Logging, []string{"LOG", "DEBUG"}},
	{Features, []string{"FEATURE"}},
	{Other, nil},
}

// Categories returns all categories.
func Categories() []Category {
	var all []Category
	for _, f := range families {
		all = append(all, f.category)
	}
	return all
}

// CategoryOf returns the category of a setting.
func CategoryOf(name string) Category {
	first, _, _ := strings.Cut(strings.ToUpper(name), "_")
	for _, f := range families {
		if slices.Contains(f.begins, first) {
			return f.category
		}
	}
	return Other
}

// secretWords are the words that make a setting secret if a part of its name ends with one, unless its writer says
// otherwise.
var secretWords = regexp.MustCompile(
	`(?:SECRETS?|PASSWORD|PASSWD|PASS|PWD|TOKENS?|KEYS?|CREDENTIALS?|PRIVATE|SALT|DSN)(?:[_.-]|$)`)

// addresses are parts of names of URLs; the URL of a store has a password.
var addresses = regexp.MustCompile(`[_.-](?:URL|URI)S?$`)

// SecretByName reports whether a setting is secret by its name, unless its writer says otherwise: it has a word such as
// KEY, PASSWORD or TOKEN, or is the URL of a database, of Redis or of a search.
func SecretByName(name string) bool {
	upper, category := strings.ToUpper(name), CategoryOf(name)
	stores := category == Database || category == Redis || category == Search
	return secretWords.MatchString(upper) || stores && addresses.MatchString(upper)
}

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// Reserved reports whether a name has a meaning in the paths of the API, and so can't be that of a setting.
func Reserved(name string) bool { return name == "export" || name == "import" }

// CheckName checks the name of a setting: letters, digits, and _ . -, not beginning with a digit, 1 to 128 bytes. The
// error has the slug fault.SlugInvalidID.
func CheckName(name string) error {
	if err := records.CheckID("name", name); err != nil {
		return err
	}
	if !namePattern.MatchString(name) || Reserved(name) {
		return &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidID, Field: "name",
			Detail: "the name of a setting has letters, digits and _ . - only, doesn't begin with a digit, . or -, and isn't export or import",
		}
	}
	return nil
}
