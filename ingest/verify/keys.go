package verify

import (
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strings"
	"sync"

	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"

	"github.com/forebay-io/forebay/schemas"
)

// decodeKeys turns secrets into key bytes. Errors count the secrets from 1 and never quote them.
func decodeKeys(secrets []schemas.Secret, encoding, prefix string) ([][]byte, error) {
	if len(secrets) == 0 {
		return nil, refuse(BadKey, "secrets is empty: a source without a secret would let everybody in")
	}
	keys := make([][]byte, 0, len(secrets))
	for i, s := range secrets {
		text := strings.TrimPrefix(s.Reveal(), prefix)
		var key []byte
		ok := true
		switch encoding {
		case "", "text":
			key = []byte(text)
		case "hex":
			var err error
			key, err = hex.DecodeString(text)
			ok = err == nil
		case "base64":
			key, ok = decodeBase64(text)
		default:
			return nil, refuse(BadKey, "key_encoding %q is not one of text, hex, base64", encoding)
		}
		if !ok {
			return nil, refuse(BadKey, "secret %d is not %s, which key_encoding asks for", i+1, encoding)
		}
		if len(key) == 0 {
			return nil, refuse(BadKey, "secret %d is empty: a source without a secret would let everybody in", i+1)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// decodeBase64 reads either alphabet, with or without padding, and nothing else: no line breaks, no stray bits.
func decodeBase64(text string) ([]byte, bool) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, false // the standard decoder skips them
	}
	enc := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		enc = base64.RawURLEncoding
	}
	if trimmed := strings.TrimRight(text, "="); len(trimmed) != len(text) {
		if len(text)%4 != 0 || len(text)-len(trimmed) > 2 {
			return nil, false
		}
		text = trimmed
	}
	b, err := enc.Strict().DecodeString(text)
	return b, err == nil
}

func hashes(algorithm string) func() hash.Hash {
	switch algorithm {
	case "sha1":
		return sha1.New
	case "sha512":
		return sha512.New
	}
	return sha256.New
}

// mac is a keyed hash with scratch space. Reset goes back to the state after the key was set, so that a pooled one is cheap to use.
type mac struct {
	hash.Hash
	sum, text []byte
}

// macKey hands out keyed hashes of one key, and used ones again: without, ingest's BenchmarkHandler takes 10 % more processor.
type macKey struct{ pool sync.Pool }

func newMACKey(algorithm string, key []byte) *macKey {
	k := &macKey{}
	k.pool.New = func() any { return &mac{Hash: hmac.New(hashes(algorithm), key)} }
	return k
}

func (k *macKey) get() *mac {
	m := k.pool.Get().(*mac)
	m.Reset()
	return m
}

func (k *macKey) put(m *mac) { k.pool.Put(m) }

// write adds text without allocating.
func (m *mac) write(text string) {
	m.text = append(m.text[:0], text...)
	m.Write(m.text)
}

// digest returns the digest, which is valid until the next call on m.
func (m *mac) digest() []byte {
	m.sum = m.Sum(m.sum[:0])
	return m.sum
}
