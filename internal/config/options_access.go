package config

func accessOptions() []option {
	return []option{
		{
			name: "api-keys", kind: "file",
			help: "YAML or JSON file with API keys, which tidemark key create --offline writes. Read again when it changes. With this option the service requires credentials.",
			set:  into(func(c *Config) *string { return &c.Access.KeysFile }, parseText),
		},
		{
			name: "require-credentials", kind: kindSwitch,
			help: "Whether to require credentials even if neither api-keys nor jwt-keys is set. API keys can be created through the admin listener, if it is a Unix socket.",
			set:  into(func(c *Config) *bool { return &c.Access.Require }, parseSwitch),
		},
		{
			name: "insecure", kind: kindSwitch,
			help: "Whether to let everybody do everything on addresses that other machines can reach. Otherwise the service listens there only if it requires credentials.",
			set:  into(func(c *Config) *bool { return &c.Access.Insecure }, parseSwitch),
		},
	}
}

func tlsOptions() []option {
	return []option{
		{
			name: "tls-cert", kind: "file",
			help: "PEM file with the certificate that all TCP listeners show, followed by those of the authorities between it and a root. Turns TLS on. Read again when the file changes.",
			set:  into(func(c *Config) *string { return &c.TLS.Cert }, parseText),
		},
		{
			name: "tls-key", kind: "file", help: "PEM file with the private key of tls-cert.",
			set: into(func(c *Config) *string { return &c.TLS.Key }, parseText),
		},
		{
			name: "tls-client-ca", kind: "file",
			help: "PEM file with the authorities that sign clients' certificates. Clients must then show one, on all TCP listeners.",
			set:  into(func(c *Config) *string { return &c.TLS.ClientCA }, parseText),
		},
	}
}
