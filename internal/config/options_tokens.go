package config

import (
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/access/jwt"
)

// maxLeeway is more than clocks that are kept differ by.
const maxLeeway = 5 * time.Minute

func tokenOptions() []option {
	return []option{
		{
			name: "jwt-keys", kind: kindList,
			help: "Keys that verify users' tokens (JSON Web Tokens): files in PEM or with JSON Web Keys, and https URLs of JSON Web Key Sets (http only from a loopback address). Files are read again when they change; sets are fetched every 5 minutes, and for a key that isn't known. With this option the service requires credentials.",
			set:  into(func(c *Config) *[]string { return &c.Access.Tokens.Keys }, namedValue(listOf(anyText))),
		},
		{
			name: "jwt-algorithms", kind: kindList, def: "RS256,ES256,EdDSA",
			help: "Algorithms that tokens may be signed with: " + strings.Join(jwt.Algorithms, ", ") +
				". A key is used only for algorithms of its own sort.",
			set: into(func(c *Config) *[]string { return &c.Access.Tokens.Algorithms }, listOf(anyText)),
		},
		{
			name: "jwt-issuer", kind: "text", help: "Issuer (iss) that tokens must have. Not set: any.",
			set: into(func(c *Config) *string { return &c.Access.Tokens.Issuer }, namedValue(anyText)),
		},
		{
			name: "jwt-audience", kind: kindList,
			help: "Audiences (aud) of which a token must have one. Not set: tokens with an audience are refused, since they are for another service.",
			set:  into(func(c *Config) *[]string { return &c.Access.Tokens.Audience }, namedValue(listOf(anyText))),
		},
		{
			name: "jwt-leeway", kind: "duration", def: "0s",
			help: "By how much the issuer's clock may differ: a token is valid for that long before its nbf and after its exp. At most 5m.",
			set: into(func(c *Config) *time.Duration { return &c.Access.Tokens.Leeway },
				durationBetween(0, maxLeeway)),
		},
		{
			name: "jwt-claim", kind: "text", def: jwt.DefaultClaim, help: "Claim of a token that has its grants.",
			set: into(func(c *Config) *string { return &c.Access.Tokens.Claim }, anyText),
		},
	}
}
