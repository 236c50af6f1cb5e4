package records

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
)

// Category is the subject of a setting. It follows from its name.
type Category string

// The categories of Discours.io, and Other for the rest.
const (
	CategoryDatabase     Category = "database"
	CategoryAuth         Category = "auth"
	CategoryRedis        Category = "redis"
	CategorySearch       Category = "search"
	CategoryIntegrations Category = "integrations"
	CategorySecurity     Category = "security"
	CategoryLogging      Category = "logging"
	CategoryFeatures     Category = "features"
	CategoryOther        Category = "other"
)

// families are the beginnings of names by category: those of Discours.io's variables. A name is of a family if it is
// equal to it, or begins with it and an underscore.
var families = []struct {
	category Category
	begins   []string
}{
	{CategoryDatabase, []string{"DB", "DATABASE", "POSTGRES"}},
	{CategoryAuth, []string{"JWT", "OAUTH", "AUTH", "SESSION"}},
	{CategoryRedis, []string{"REDIS"}},
	{CategorySearch, []string{"SEARCH", "ELASTICSEARCH"}},
	{CategoryIntegrations, []string{"GOOGLE", "SENTRY", "SMTP"}},
	{CategorySecurity, []string{"CORS", "ALLOWED"}},
	{CategoryLogging, []string{"LOG", "DEBUG"}},
	{CategoryFeatures, []string{"FEATURE"}},
	{CategoryOther, nil},
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
	return CategoryOther
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
	stores := category == CategoryDatabase || category == CategoryRedis || category == CategorySearch
	return secretWords.MatchString(upper) || stores && addresses.MatchString(upper)
}

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// ReservedSetting reports whether a name has a meaning in the paths of the API, and so can't be that of a setting.
func ReservedSetting(name string) bool { return name == "export" || name == "import" }

// CheckSettingName checks the name of a setting: letters, digits, and _ . -, not beginning with a digit, 1 to 128
// bytes. The error has the slug fault.SlugInvalidID.
func CheckSettingName(name string) error {
	if err := CheckID("name", name); err != nil {
		return err
	}
	if !namePattern.MatchString(name) || ReservedSetting(name) {
		return &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidID, Field: "name",
			Detail: "the name of a setting has letters, digits and _ . - only, doesn't begin with a digit, . or -, and isn't export or import",
		}
	}
	return nil
}
