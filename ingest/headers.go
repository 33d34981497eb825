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

// keep is a request's headers as they go to quarantine: sorted, in lower case, secrets left out, and those that would
// go over maxKept.
func keep(header http.Header, host string, secrets []string) []schemas.Header {
	kept := make([]schemas.Header, 0, len(header)+1)
	if host != "" {
		kept = append(kept, schemas.Header{Name: "host", Value: host})
	}
	for name, values := range header {
		lower := strings.ToLower(name)
		if carriesSecret(lower) || slices.ContainsFunc(secrets, func(s string) bool { return strings.EqualFold(s, name) }) {
			continue
		}
		for _, value := range values {
			kept = append(kept, schemas.Header{Name: lower, Value: value})
		}
	}
	slices.SortStableFunc(kept, func(a, b schemas.Header) int { return strings.Compare(a.Name, b.Name) })
	left := maxKept
	return slices.DeleteFunc(kept, func(h schemas.Header) bool {
		n := len(h.Name) + len(h.Value) + 16
		if n > left {
			return true
		}
		left -= n
		return false
	})
}

func carriesSecret(name string) bool {
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}
