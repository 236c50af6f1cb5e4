package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/internal/program/suggest"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/internal/records/tokens"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/shard"
	hostlist "github.com/tidemark-dev/tidemark/shard/hosts"
)

// Bounds of durations.
const (
	minSessionTTL = time.Minute
	minPingPeriod = 20 * time.Millisecond
	maxPingPeriod = 10 * time.Minute
	minLeaseTTL   = 50 * time.Millisecond
	maxLeaseTTL   = time.Hour
	minReload     = time.Second
)

// maxSessionTTL is the TTL of the kind of sessions.
var maxSessionTTL = records.SessionKind.TTL

// anyText accepts any text.
func anyText(text string) (string, error) { return text, nil }

func passwordFile(text string) (PasswordFile, error) { return PasswordFile(text), nil }

// password drops the line ends that a file leaves in a variable.
func password(text string) (string, error) { return withoutLineEnd(text), nil }

func withoutLineEnd(text string) string { return strings.TrimRight(text, "\r\n") }

// keyPrefix refuses braces, which would change the hash tag of every key.
func keyPrefix(text string) (string, error) {
	if strings.ContainsAny(text, "{}") {
		return "", fmt.Errorf("%q contains a brace: the hash tag of every key must be the channel", text)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", fmt.Errorf("%q contains a space or a control character", text)
	}
	return text, nil
}

// listen parses an address to listen on: a host, which may be empty, and a port.
func listen(text string) (string, error) {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("%q isn't host:port, such as 127.0.0.1:8080 or :8080", text)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q isn't a port from 0 to 65535", port)
	}
	return text, nil
}

// listenOrOff parses an address to listen on, or off. It returns "" if there is nothing to listen on.
func listenOrOff(text string) (string, error) {
	if text == "off" || text == "" {
		return "", nil
	}
	return listen(text)
}

// openMatchListen parses the ports of Open Match's services, such as frontend=:50504,backend=:50505.
func openMatchListen(text string) (o OpenMatchListen, err error) {
	fields := map[string]*string{"frontend": &o.Frontend, "backend": &o.Backend, "query": &o.Query}
	ports := map[string]string{} // services, by their ports
	parts, _ := listOf(anyText)(text)
	for _, part := range parts {
		name, address, found := strings.Cut(part, "=")
		field := fields[name]
		if !found || field == nil {
			return OpenMatchListen{}, fmt.Errorf(
				"%q isn't frontend=host:port, backend=host:port or query=host:port, such as frontend=:50504", part)
		}
		if *field != "" {
			return OpenMatchListen{}, fmt.Errorf("%s has two addresses: leave one out", name)
		}
		if *field, err = listen(address); err != nil {
			return OpenMatchListen{}, fmt.Errorf("%s: %w", name, err)
		}
		port := portOf(address)
		if other := ports[port]; other != "" && port != "0" {
			return OpenMatchListen{}, fmt.Errorf("%s and %s have the same port: give each its own", other, name)
		}
		ports[port] = name
	}
	return o, nil
}

// portOf returns the port of an address.
func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// UnixPrefix begins the address of a Unix socket. Its path follows.
const UnixPrefix = "unix:"

// adminListen is listenOrOff with Unix sockets. It returns "" if there is nothing to listen on.
func adminListen(text string) (string, error) {
	path, isUnix := strings.CutPrefix(text, UnixPrefix)
	switch {
	case isUnix && path == "":
		return "", fmt.Errorf("%q has no path, as in unix:tidemark-data/admin.sock", text)
	case isUnix:
		return text, nil
	}
	return listenOrOff(text)
}

// origin parses an origin of web pages, or *. A star in its host stands for any text. A dot follows it, or else
// https://*example.com would have the pages of evilexample.com.
func origin(text string) (string, error) {
	if text == "*" {
		return text, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != text {
		return "", fmt.Errorf("%q isn't an origin, such as https://example.com, https://*.example.com or *", text)
	}
	host := u.Hostname()
	rest := host[strings.LastIndexByte(host, '*')+1:]
	if wrong := rest != host && host != "*" && !strings.HasPrefix(rest, "."); wrong || strings.HasPrefix(host, ".") ||
		strings.Contains(host, "**") {
		return "", fmt.Errorf("%q isn't an origin, such as https://*.example.com, in which a dot follows the star", text)
	}
	return text, nil
}

// host parses a host name whose first label may be a star.
func host(text string) (string, error) {
	name := strings.ToLower(strings.TrimPrefix(text, "*."))
	if name == "" || name[0] == '.' || strings.ContainsAny(name, "*?[]\\/:@ ") {
		return "", fmt.Errorf("%q isn't a host name without a port, such as tidemark.example.com or *.example.com",
			text)
	}
	return strings.ToLower(text), nil
}

// prefixPattern matches a path without escapes. Its segments don't begin with a dot.
var prefixPattern = regexp.MustCompile(`^(/[0-9A-Za-z_~-][0-9A-Za-z_.~-]*)+$`)

// pathPrefix parses the beginning of paths.
func pathPrefix(text string) (string, error) {
	if len(text) > 128 || !prefixPattern.MatchString(text) || strings.HasPrefix(text+"/", "/v1/") {
		return "", fmt.Errorf("%q isn't a path such as /old/api, without a slash at its end, of at most 128 bytes, "+
			"and not below /v1", text)
	}
	return text, nil
}

// streamPrefix parses the beginning of the paths of streams, which is "" for off.
func streamPrefix(text string) (string, error) {
	path, ended := strings.CutSuffix(text, "/")
	_, err := pathPrefix(path)
	switch {
	case text == "off":
		return "", nil
	case text == "/v1/stream/", ended && err == nil:
		return text, nil
	}
	return "", fmt.Errorf("%q isn't off, nor a path such as /streams/, with a slash at its end, of at most 128 bytes, and "+
		"below /v1 only /v1/stream/", text)
}

// durationBetween parses a duration between least and most.
func durationBetween(least, maximum time.Duration) func(string) (time.Duration, error) {
	return func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return 0, fmt.Errorf("%q isn't a duration, such as 500ms, 30s or 24h", text)
		case d < least:
			return 0, fmt.Errorf("%s is too short, at least %s is needed", text, least)
		case d > maximum:
			return 0, fmt.Errorf("%s is too long, at most %s is allowed", text, maximum)
		}
		return d, nil
	}
}

// intFrom parses an integer that is at least least.
func intFrom(least int) func(string) (int, error) { return intBetween(least, math.MaxInt) }

// intBetween parses an integer between least and most.
func intBetween(least, maximum int) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("%q isn't an integer", text)
		}
		if n < least {
			return 0, fmt.Errorf("%d is too small, at least %d is needed", n, least)
		}
		if n > maximum {
			return 0, fmt.Errorf("%d is too large, at most %d is possible", n, maximum)
		}
		return n, nil
	}
}

var byteUnits = []struct {
	suffix string
	bytes  int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}}

// ParseBytes parses a number of bytes, with or without a unit: KiB, MiB or GiB. The least is 1.
func ParseBytes(text string) (int, error) {
	number, unit := text, 1
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n > math.MaxInt/unit {
		return 0, fmt.Errorf("%q isn't a number of bytes, such as 65536, 256KiB or 4MiB", text)
	}
	if n < 1 {
		return 0, fmt.Errorf("%s is too small, at least one byte is needed", text)
	}
	return n * unit, nil
}

// listOf parses values that are separated by commas. Empty ones are left out.
func listOf[T any](parse func(string) (T, error)) func(string) ([]T, error) {
	return func(text string) ([]T, error) {
		var list []T
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			value, err := parse(part)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	}
}

// errEmpty refuses a value that is empty.
var errEmpty = errors.New("is empty: leave the option out, or set it")

// namedValue refuses a value that names nothing. It is for options that are a protection: --api-keys "$KEYS" must not
// be an open service if the variable isn't set.
func namedValue[T any](parse func(string) (T, error)) func(string) (T, error) {
	return func(text string) (T, error) {
		if strings.Trim(text, ", ") == "" {
			var none T
			return none, errEmpty
		}
		return parse(text)
	}
}

// receiptKey parses a key. Its error never contains the key.
func receiptKey(text string) (receipt.Key, error) {
	key, err := receipt.ParseKey(text)
	switch {
	case errors.Is(err, receipt.ErrKeySyntax):
		return nil, errors.New("a key isn't base64: make one with `openssl rand -base64 32`")
	case err != nil:
		return nil, fmt.Errorf("%w: make one with `openssl rand -base64 32`", err)
	}
	return key, nil
}

// receiptKeysOf reads a file of keys, one in each line. Lines that are empty or start with # are left out.
func receiptKeysOf(path string) (keys []receipt.Key, err error) {
	content, err := os.ReadFile(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		key, err := receiptKey(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s contains no key", path)
	}
	return keys, nil
}

// logLevel parses a level of the log.
func logLevel(text string) (slog.Level, error) {
	var level slog.Level
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, text) {
		return 0, fmt.Errorf("%q isn't debug, info, warn or error", text)
	}
	err := level.UnmarshalText([]byte(text))
	return level, err
}

// oneOfWords accepts one of the words.
func oneOfWords(words ...string) func(string) (string, error) {
	return func(text string) (string, error) {
		if !slices.Contains(words, text) {
			return "", fmt.Errorf("%q isn't %s", text, strings.Join(words, " or "))
		}
		return text, nil
	}
}

// network parses a network or a single address.
func network(text string) (netip.Prefix, error) {
	if at, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(at, at.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q isn't a network, such as 10.0.0.0/8 or 2001:db8::/32", text)
	}
	return network, nil
}

// replicas accepts on, off, or what looks like a URL or host:port.
func replicas(text string) (string, error) {
	if text != "on" && text != "off" && !strings.Contains(text, ":") {
		return "", fmt.Errorf("%q isn't on, off or a URL", text)
	}
	return text, nil
}

// parseKeyForm parses a form of keys, and reports whether it is plain.
func parseKeyForm(text string) (plain bool, err error) {
	word, err := oneOfWords("braces", "plain")(text)
	return word == "plain", err
}

// parseQuotas refuses limits that no quota can have.
func parseQuotas(text string) (access.Limits, error) {
	l, err := access.ParseLimits(text)
	if l.Waits > 0 || l.NewChannels.Count > 0 || l.NewSubscribers.Count > 0 {
		err = fmt.Errorf("%q has a limit that is no quota: those are requests, publishedBytes and tickets", text)
	}
	return l, err
}

// parseTarget accepts a pattern of what may be called.
func parseTarget(text string) (string, error) {
	_, err := jsonhttp.ParseTargets([]string{text})
	return text, err
}

// parseProvider parses the name of an OAuth provider.
func parseProvider(text string) (string, error) { return text, tokens.CheckProvider(text) }

// parseKind parses the name of a kind of keys, or "unknown".
func (c *Config) parseKind(text string) (string, error) {
	if text == records.Unknown || slices.ContainsFunc(c.Records.Site.Table.All(),
		func(k *records.Kind) bool { return k.Name == text }) {
		return text, nil
	}
	return "", fmt.Errorf("%.64q is no kind of keys: docs/records.md lists them", text)
}

// setSessionGrants parses the grants of sessions. The default follows the table of kinds.
func (c *Config) setSessionGrants(text string) (err error) {
	if text == defaultSessionGrants {
		text = sessionGrants(c.Records.Site)
	}
	if c.Records.Sessions.Grants, err = access.ParseGrants([]byte(text)); err != nil {
		return err
	}
	return c.Records.Sessions.Grants.CheckPatterns()
}

// parseCache parses the name of a cache, which is that of a kind of its values.
func (c *Config) parseCache(text string) (string, error) {
	table := c.Records.Site.Table
	if _, err := tier.Find(table, text); err != nil {
		var names []string
		for _, kind := range table.Caches() {
			names = append(names, kind.Name)
		}
		return "", fmt.Errorf("%.64q: %w%s", text, err, suggest.Hint(suggest.Near(text, names)))
	}
	return text, nil
}

// parseName returns what parses a name of something.
func parseName(what string) func(string) (string, error) {
	return func(text string) (string, error) { return text, shard.CheckName(what, text) }
}

var hostName = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,253}$`)

// parseAdvertise parses an address that others can connect to.
func parseAdvertise(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("%q isn't host:port, such as 10.0.0.7:7100", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%q isn't a port from 1 to 65535", port)
	}
	if _, err := netip.ParseAddr(host); err != nil && !hostName.MatchString(host) || unspecified(text) {
		return "", fmt.Errorf("%q has no host that others can connect to", text)
	}
	return text, nil
}

// unspecified reports whether an address to listen on stands for all addresses of the machine.
func unspecified(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return true
	}
	at, err := netip.ParseAddr(host)
	return err == nil && at.IsUnspecified()
}

// parseHosts parses a list of hosts: redis alone, or what hosts.Parse parses.
func parseHosts(text string) ([]string, error) {
	hosts, err := namedValue(listOf(anyText))(text)
	if err == nil && !slices.Equal(hosts, []string{HostsOfRedis}) {
		_, err = hostlist.Parse(hosts, nil)
	}
	return hosts, err
}
