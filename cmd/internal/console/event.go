package console

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
)

// eventPage is one event as a subscription sees it.
type eventPage struct {
	*api.InboxDetail
	Name string // as lists print it
	Body part[*body]
	Raw  string // link that downloads the body, byte for byte
	// Redrive and Discard are links to what redriving it would do, and giving it up; empty: that is not asked of it.
	Redrive, Discard string
}

// Dead reports whether an action is a dead letter, or its outcome unknown.
func (p eventPage) Dead(a api.ActionItem) bool { return isDead(a.Status) }

func isDead(status string) bool { return status == "dead_letter" || status == "unknown" }

const (
	shownText = 64 << 10 // bytes of a body that are shown
	shownHex  = 4 << 10  // of one that is no text
)

// body is what was sent, as text, and what the record in the log says of it.
type body struct {
	ContentType string
	Bytes       int
	Text        string
	Cut         int // how many bytes are shown, if not all are
	Binary      bool
	Headers     []api.DeadHeader
	Curl        string // sends it to an agent
	Fixture     fixture
}

func (c *Console) event(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r, "id"); err != nil {
		return nil, err
	}
	n, err := names.ParseEvent(r.URL.Query().Get("id"))
	if err != nil {
		return nil, err
	}
	p := eventPage{}
	if p.InboxDetail, err = c.API.Item(ctx, n.Team, n.Subscription, n.Source, n.ID); err != nil {
		return nil, err
	}
	n = api.EventName(&p.InboxItem) // n may have been cut off
	p.Name = n.String()
	redrive, discard := redrivable(&p.InboxItem)
	may := api.Asks(ctx).May(access.Respond)
	if redrive && may {
		p.Redrive = redriveLink(n, false)
	}
	if discard && may {
		p.Discard = redriveLink(n, true)
	}
	p.Raw = "/console/event/raw?" + url.Values{"id": {p.Name}}.Encode()
	p.Body = partOf(ctx, func(ctx context.Context) (*body, error) {
		raw, err := c.API.Record(ctx, n.Team, n.Subscription, n.Source, n.ID, shownText)
		if err != nil {
			return nil, err
		}
		b := bodyOf(raw)
		b.Curl = curl(c.download(r, api.RawPath(n.Team, n.Subscription, n.Source, n.ID)), raw)
		b.Fixture = fixtureOf(&p.InboxItem, raw)
		return b, nil
	})
	return p, nil
}

// download returns the command that downloads a body from the API.
func (c *Console) download(r *http.Request, path string) string {
	command, origin := "curl -o body ", "http://"+r.Host
	if c.Login != nil {
		command += `-H "Authorization: Bearer $FOREBAY_TOKEN" `
	}
	if c.Login != nil && c.Login.Secure {
		origin = "https://" + r.Host
	}
	return command + inQuotes(origin+path)
}

// rawEvent downloads the body of an event, byte for byte. The API's own path is for those with a token.
func (c *Console) rawEvent(w http.ResponseWriter, r *http.Request) {
	c.serveRaw(w, r, func(ctx context.Context) (*api.Raw, error) {
		if err := api.OnlyKnown(r, "id"); err != nil {
			return nil, err
		}
		n, err := names.ParseEvent(r.URL.Query().Get("id"))
		if err != nil {
			return nil, err
		}
		return c.API.Raw(ctx, n.Team, n.Subscription, n.Source, n.ID)
	})
}

// serveRaw answers with a body as a download, or with why there is none.
func (c *Console) serveRaw(w http.ResponseWriter, r *http.Request, ask func(context.Context) (*api.Raw, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	raw, err := ask(ctx)
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	api.WriteRaw(w, raw)
}

// bodyOf returns a body to be shown, of a record that has shownText bytes of it, or all if it is shorter: the beginning of a long one, and bytes that are no text in hexadecimal.
func bodyOf(raw *api.InboxRecord) *body {
	b := &body{ContentType: raw.ContentType, Bytes: raw.Bytes, Headers: raw.Headers}
	data := raw.Body[:min(shownText, len(raw.Body))]
	for n := 0; n < utf8.UTFMax && len(data) < raw.Bytes && !utf8.Valid(data); n++ { // the cut may be inside of a character
		data = data[:len(data)-1]
	}
	if b.Binary = !utf8.Valid(data); b.Binary {
		data = raw.Body[:min(shownHex, len(raw.Body))]
		b.Text = hex.Dump(data)
	} else {
		b.Text = strings.ReplaceAll(string(data), "\r\n", "\n")
	}
	if len(data) < raw.Bytes {
		b.Cut = len(data)
	}
	return b
}
