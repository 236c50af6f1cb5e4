// Package redis has the options that say which Redis to use.

package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// RedisOptions says which Redis to use and how to log in. An empty Address means the managed one.
type RedisOptions struct {
	Address        string
	KeyPrefix      string
	Username       string
	Password       string
	PasswordFile   string // read into Password
	TLS            tlsFiles
	Sentinel       sentinel
	Timeout        time.Duration // of one operation
	ConnectTimeout time.Duration // at start-up
}

// tlsFiles are PEM files. If any is set, TLS is on.
type tlsFiles struct {
	CAFile   string
	CertFile string
	KeyFile  string
}

// sentinel says how to find the primary. An empty Master means without Sentinels.
type sentinel struct {
	Master   string
	Username string
	Password string
}

// Complete checks the options against each other, and reads the password. Its errors name the YAML key.
func (r *RedisOptions) Complete() error {
	if r.Address == "" {
		for key, value := range map[string]string{
			"redisUsername": r.Username, "redisPassword": r.Password, "redisPasswordFile": r.PasswordFile,
			"redisCaFile":   r.TLS.CAFile,
			"redisCertFile": r.TLS.CertFile, "redisSentinelMaster": r.Sentinel.Master,
		} {
			if value != "" {
				return fmt.Errorf("%s: is set but redis isn't: the managed Redis doesn't use it", key)
			}
		}
	}
	if (r.TLS.CertFile == "") != (r.TLS.KeyFile == "") {
		return errors.New("redisCertFile: redisCertFile and redisKeyFile must be set together")
	}
	if r.Sentinel.Master == "" && r.Sentinel.Username+r.Sentinel.Password != "" {
		return errors.New("redisSentinelMaster: isn't set, but a user or password for Sentinels is")
	}
	if r.PasswordFile == "" {
		return nil
	}
	if r.Password != "" {
		return errors.New("redisPasswordFile: redisPassword is set too: use one of them")
	}
	password, err := os.ReadFile(r.PasswordFile)
	if err != nil {
		return fmt.Errorf("redisPasswordFile: %w", err)
	}
	r.Password = strings.TrimRight(string(password), "\r\n")
	return nil
}

// TLSConfig returns the configuration that the files make, or nil if none is set.
func (r RedisOptions) TLSConfig() (*tls.Config, error) {
	if r.TLS.CAFile == "" && r.TLS.CertFile == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.TLS.CAFile != "" {
		pem, err := os.ReadFile(r.TLS.CAFile)
		if err != nil {
			return nil, fmt.Errorf("redisCaFile: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redisCaFile: %s contains no certificate in PEM form", r.TLS.CAFile)
		}
	}
	if r.TLS.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(r.TLS.CertFile, r.TLS.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("redisCertFile: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
