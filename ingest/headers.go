package ingest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// secretWords are parts of the names of headers that contain a secret. Signatures are no secrets, and are kept: a delivery in
// quarantine can be verified again.
var secretWords = []string{"authorization", "cookie", "token", "secret", "passw", "api-key", "apikey", "credential"}

// maxKept bounds the bytes of headers kept, so that the record fits beside the largest body.
const maxKept = schemas.MaxKept

// headerFrame is what a header takes in the record beside its name and value, at most.
const headerFrame = 16

// maxURL bounds the bytes of a URL that are kept, for the same reason. No provider's URL is longer.
const maxURL = 16 << 10

// keptHeaders returns a request's headers as they are kept in quarantine: sorted by name, in lower case, without secrets, and at most
// maxKept bytes. Host and the headers that the signature needs have the first claim on these; the latter are kept even if one of
// secretWords is in their name.
func keptHeaders(header http.Header, host string, m mapping) []schemas.Header {
	secrets, proof := m.SecretHeaders(), m.Proof().Headers
	var first, rest []schemas.Header
	for name, values := range header {
		lower, proves := strings.ToLower(name), slices.Contains(proof, name)
		if slices.Contains(secrets, name) || (carriesSecret(lower) && !proves) {
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
	slices.SortStableFunc(first, byName) // so that a map's order does not decide which ones fit
	slices.SortStableFunc(rest, byName)
	left := maxKept
	kept := slices.DeleteFunc(append(first, rest...), func(h schemas.Header) bool {
		n := len(h.Name) + len(h.Value) + headerFrame
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
