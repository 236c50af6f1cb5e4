package config

import (
	"fmt"
	"net/netip"

	"github.com/tidemark-dev/tidemark/access"
)

func accessOptions() []option {
	return []option{
		{
			name: "api-keys", kind: "file",
			help: "YAML or JSON file with API keys, which tidemark key create --offline writes. Read again when it changes. With this option the service requires credentials.",
			set:  into(func(c *Config) *string { return &c.Access.KeysFile }, namedValue(anyText)),
		},
		{
			name: "require-credentials", kind: kindSwitch,
			help: "Whether to require credentials even if neither api-keys nor jwt-keys is set. API keys can be created through the admin listener, if it is a Unix socket.",
			set:  into(func(c *Config) *bool { return &c.Access.Require }, onOrOff),
		},
		{
			name: "insecure", kind: kindSwitch,
			help: "Whether to let everybody do everything on addresses that other machines can reach. Otherwise the service listens there only if it requires credentials.",
			set:  into(func(c *Config) *bool { return &c.Access.Insecure }, onOrOff),
		},
	}
}

const kindLimits = "limits"

func clientOptions() []option {
	return []option{
		{
			name: "user-limits", kind: kindLimits,
			def:  "requests=100/s,publishedBytes=1MiB/s,waits=100,tickets=60/m,newChannels=60/m,newSubscribers=600/m",
			help: "What each user, and each player with the token of a ticket, may do on one server. A rate is a number for each s, m, h or d, of which all can come at once. What is left out has no limit, nothing has one with off. An API key has the limits of its record.",
			set:  into(func(c *Config) *access.Limits { return &c.Access.UserLimits }, access.ParseLimits),
		},
		{
			name: "address-limits", kind: kindLimits, def: "off",
			help: "What the clients of each address, or of each /64 of IPv6, may do together on one server, in the form of user-limits.",
			set:  into(func(c *Config) *access.Limits { return &c.Access.AddressLimits }, access.ParseLimits),
		},
		{
			name: "quotas", kind: kindLimits, def: "off",
			help: "What each user and each API key may do on all servers together, in the form of user-limits: requests, publishedBytes and tickets. Each takes a call of Redis.",
			set:  into(func(c *Config) *access.Limits { return &c.Access.Quotas }, parseQuotas),
		},
		{
			name: "trust-proxies", kind: kindList,
			help: "Networks of reverse proxies, such as 10.0.0.0/8, whose header X-Forwarded-For says which address a request is from: for address-limits, for the limit of invalid credentials and for the log.",
			set:  into(func(c *Config) *[]netip.Prefix { return &c.Access.TrustProxies }, listOf(network)),
		},
	}
}

// parseQuotas refuses limits that no quota can have.
func parseQuotas(text string) (access.Limits, error) {
	l, err := access.ParseLimits(text)
	if l.Waits > 0 || l.NewChannels.Count > 0 || l.NewSubscribers.Count > 0 {
		err = fmt.Errorf("%q has a limit that is no quota: those are requests, publishedBytes and tickets", text)
	}
	return l, err
}

func tlsOptions() []option {
	return []option{
		{
			name: "tls-cert", kind: "file",
			help: "PEM file with the certificate that all TCP listeners show, followed by those of the authorities between it and a root. Turns TLS on. Read again when the file changes.",
			set:  into(func(c *Config) *string { return &c.TLS.Cert }, namedValue(anyText)),
		},
		{
			name: "tls-key", kind: "file", help: "PEM file with the private key of tls-cert.",
			set: into(func(c *Config) *string { return &c.TLS.Key }, namedValue(anyText)),
		},
		{
			name: "tls-client-ca", kind: "file",
			help: "PEM file with the authorities that sign clients' certificates. Clients must then show one, on all TCP listeners.",
			set:  into(func(c *Config) *string { return &c.TLS.ClientCA }, namedValue(anyText)),
		},
	}
}
