package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest/verify"
)

type signCmd struct {
	fileFlags
	Source string `arg:"" name:"team/source" help:"The source whose first secret signs."`
	deliveryFlags
	URL string `name:"url" help:"URL that the provider calls, where that is signed. Default: the source's public URL."`
	At  string `placeholder:"TIME" help:"Time of signing: RFC 3339, or how long ago (10m). Default: now."`
}

// redactedValue stands for the value of a header that is a secret.
const redactedValue = "<redacted>"

// Run signs a delivery as the provider does, and prints it: its headers and, behind an empty line, its body; with -o json as a file that send and
// verify take. A header that has the secret itself is printed without it.
func (c *signCmd) Run(e *env) error {
	source, err := c.source(e, c.Source)
	if err != nil {
		return err
	}
	r, err := c.request(e)
	if err != nil {
		return err
	}
	at, err := signedAt(c.At)
	if err != nil {
		return err
	}
	r.URL = cmp.Or(c.URL, source.publicURL, r.URL, source.intake(""))
	if err := source.Sign(r, at); err != nil {
		return fmt.Errorf("sign for %s: %w", c.Source, err)
	}
	for _, name := range source.SecretHeaders() {
		if r.Header.Get(name) != "" {
			r.Header.Set(name, redactedValue)
			fmt.Fprintf(e.Stderr, "%s has the source's secret itself, which is not printed; `forebay send` sends it\n", name)
		}
	}
	f := delivery.File{Source: names.Source.Print(source.id), Received: new(at.UTC()), Method: r.Method, URL: r.URL}
	f.SetHeader(r.Header)
	f.SetContent(r.Body)
	return printOne(e, f, r.URL, func(w io.Writer) { showRequest(w, r) })
}

// signedAt reads --at.
func signedAt(text string) (time.Time, error) {
	at, err := parseWhen("--at", text)
	if err != nil || at == nil {
		return time.Now(), err
	}
	return *at, nil
}

// showRequest writes a request as it goes over the wire. Its body is left as it is: what follows the headers can be piped.
func showRequest(w io.Writer, r *verify.Request) {
	fmt.Fprintf(w, "%s %s\n", r.Method, plain(r.URL))
	showHeaders(w, r.Header)
	fmt.Fprintln(w)
	_, _ = w.Write(r.Body)
}

func showHeaders(w io.Writer, h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(w, "%s: %s\n", plain(name), plain(strings.Join(h[name], ", ")))
	}
}
