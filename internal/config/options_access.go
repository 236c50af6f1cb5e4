package config

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
