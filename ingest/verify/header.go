package verify

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
)

// Bounds of what one request may make us compute. Each key costs a hash over the whole body; with Ed25519, each pair of a key and a
// signature does. No rotation needs more keys than this.
const (
	maxSignatures = 32
	maxKeys       = 8
	maxPairs      = 8
)

// single returns the only value of a header; name is canonical.
func single(h http.Header, name string) (string, *Error) {
	switch values := h[name]; {
	case len(values) == 0:
		return "", refuse(MissingHeader, "%s", name)
	case len(values) > 1:
		return "", refuse(Malformed, "%s appears more than once", name)
	case values[0] == "":
		return "", refuse(Malformed, "%s is empty", name)
	default:
		return values[0], nil
	}
}

// decodeDigest decodes strictly into buf; ok is false where text is not in the encoding.
func decodeDigest(encoding, text string, buf []byte) (digest []byte, ok bool) {
	if text == "" {
		return nil, false
	}
	if encoding == "hex" {
		if len(text)%2 != 0 {
			return nil, false
		}
		digest, err := hex.AppendDecode(buf[:0], []byte(text))
		return digest, err == nil
	}
	if strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	enc := base64.StdEncoding
	if encoding == "base64url" {
		enc = base64.URLEncoding
		if len(text)%4 != 0 {
			enc = base64.RawURLEncoding
		}
	}
	digest, err := enc.Strict().AppendDecode(buf[:0], []byte(text))
	return digest, err == nil
}

func encodeDigest(encoding string, digest []byte) string {
	switch encoding {
	case "base64":
		return base64.StdEncoding.EncodeToString(digest)
	case "base64url":
		return base64.URLEncoding.EncodeToString(digest)
	}
	return hex.EncodeToString(digest)
}
