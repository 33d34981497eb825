// Package header checks the request headers that somebody gives: the configuration, for destinations and fetches, or who tests a source.
package header

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/forebay-io/forebay/schemas"
)

// transport are the headers that an HTTP client sets itself. A name that ends in "-" stands for all that begin with it.
var transport = []string{"Connection", "Content-Length", "Expect", "Host", "Proxy-", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// Compile returns headers by name and value as a request has them. It refuses headers that the transport sets, and those in reserved, which
// are canonical names or, if they end in "-", beginnings of names. The error names the header, never its value.
func Compile(headers map[string]schemas.Secret, reserved ...string) (http.Header, error) {
	h := http.Header{}
	for name, value := range headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return nil, fmt.Errorf("header name %.40q is not valid", name)
		case listed(canonical, transport) || listed(canonical, reserved):
			return nil, fmt.Errorf("header %s is set by forebay", canonical)
		case !httpguts.ValidHeaderFieldValue(value.Reveal()):
			return nil, fmt.Errorf("header %s has a value with control characters", canonical)
		case h[canonical] != nil:
			return nil, fmt.Errorf("header %s is given twice", canonical)
		}
		h[canonical] = []string{value.Reveal()}
	}
	return h, nil
}

// listed reports whether name is one of names, or begins with one that ends in "-".
func listed(name string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return name == n || (strings.HasSuffix(n, "-") && strings.HasPrefix(name, n)) })
}
