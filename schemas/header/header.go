// Package header checks the request headers that a file gives, for destinations and fetches alike.
package header

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/forebay-io/forebay/schemas"
)

// transport are the headers that a client of HTTP sets itself. A name that ends in "-" is all that begin with it.
var transport = []string{"Connection", "Content-Length", "Expect", "Host", "Proxy-", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// Compile makes headers of what the file says. It refuses what the transport sets, and ours: names in their canonical
// form, or what they begin with, where that ends in "-". The error names the header, never its value.
func Compile(in map[string]schemas.Secret, ours ...string) (http.Header, error) {
	h := http.Header{}
	for name, value := range in {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return nil, fmt.Errorf("header name %.40q is not valid", name)
		case listed(canonical, transport) || listed(canonical, ours):
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

func listed(name string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return name == n || strings.HasSuffix(n, "-") && strings.HasPrefix(name, n) })
}
