package ingest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// secretWords mark headers that carry a secret instead of proving one. Signatures are kept: a delivery in quarantine
// can be verified again.
var secretWords = []string{"authorization", "cookie", "token", "secret", "passw", "api-key", "apikey", "credential"}

// maxKept bounds the bytes of headers kept, so that the record fits beside the largest body.
const maxKept = schemas.MaxKept

// maxURL bounds the bytes of a URL kept, for the same reason. No provider's is longer.
const maxURL = 16 << 10

// keep is a request's headers as they go to quarantine: sorted, in lower case, secrets left out, and those that would
// go over maxKept. What proves the delivery has the first claim to the room, whatever it is called.
func keep(header http.Header, host string, m mapping) []schemas.Header {
	secrets, proof := m.SecretHeaders(), m.Proof().Headers
	var first, rest []schemas.Header
	for name, values := range header {
		lower, proves := strings.ToLower(name), slices.Contains(proof, name)
		if slices.Contains(secrets, name) || carriesSecret(lower) && !proves {
			continue
		}
		for _, value := range values {
			if h := (schemas.Header{Name: lower, Value: value}); proves {
				first = append(first, h)
			} else {
				rest = append(rest, h)
			}
		}
	}
	if host != "" {
		first = append(first, schemas.Header{Name: "host", Value: host})
	}
	byName := func(a, b schemas.Header) int { return strings.Compare(a.Name, b.Name) }
	slices.SortStableFunc(rest, byName) // so that what has room does not depend on a map's order
	left := maxKept
	kept := slices.DeleteFunc(append(first, rest...), func(h schemas.Header) bool {
		n := len(h.Name) + len(h.Value) + 16
		if n > left {
			return true
		}
		left -= n
		return false
	})
	slices.SortStableFunc(kept, byName)
	return kept
}

func carriesSecret(name string) bool {
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}
