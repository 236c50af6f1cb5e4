package access

import (
	"crypto/sha256"
	"encoding/base64"
)

// keys makes the keys of API keys and revocations, which have one slot. Its value is the prefix.
type keys string

func (p keys) topic() string { return string(p) + "access.{registry}" }

func (p keys) records() string { return p.topic() + ".keys" }

func (p keys) revocations() string { return p.topic() + ".revocations" }

func (p keys) ends() string { return p.topic() + ".ends" }

func (p keys) changes() string { return p.topic() + ".changes" }

// quotaKey returns the key of a quota. The owner is hashed, so that its length and its characters don't matter.
func quotaKey(prefix, owner, name string) string {
	sum := sha256.Sum256([]byte(owner))
	return prefix + "access.quota.{" + base64.RawURLEncoding.EncodeToString(sum[:16]) + "}." + name
}
