package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/cmd/internal/samples"
	"github.com/forebay-io/forebay/schemas"
)

// sourceTestPage is a test delivery: what is written, what would become of it, and what has.
type sourceTestPage struct {
	Name, Back    string // of the source, and its page
	Path, Preset  string
	Body, Headers string // as they are typed: a header a line, Name: value
	Samples       []string
	Tested        *api.SourceTested // nil: nothing was asked yet
	Inbox         string            // link to the event; empty: there is none yet
	Form          *form             // to send what was planned; nil: nothing is planned, or who looks may not
}

func testLink(team, name string) string { return sourceLink(team, name) + "/test" }

// newTest shows a test that nobody has sent yet: a sample of the source's preset, where there is one.
func (c *Console) newTest(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r, "sample"); err != nil {
		return nil, err
	}
	p, preset, err := c.testOf(ctx, r)
	if err != nil {
		return nil, err
	}
	name := r.URL.Query().Get("sample")
	if name == "" && len(p.Samples) > 0 {
		name = p.Samples[0]
	}
	p.Body, p.Headers = `{"id": "forebay-test-1", "type": "forebay.test"}`, ""
	if name == "" {
		return p, nil
	}
	if !strings.HasPrefix(name, preset+"/") {
		return nil, schemas.Errorf(schemas.NotFound, "", "the preset %s has no sample %s", preset, name)
	}
	s, err := samples.Lookup(name)
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.NotFound, Err: err}
	}
	p.Body = string(s.Body)
	p.Headers = headerLines(s.Headers)
	return p, nil
}

// testOf returns the page of a source without a test, and the source's preset, if who looks may send one.
func (c *Console) testOf(ctx context.Context, r *http.Request) (p *sourceTestPage, preset string, err error) {
	team, name := r.PathValue("team"), r.PathValue("source")
	item, err := c.sourceItem(ctx, team, name)
	if err != nil {
		return nil, "", err
	}
	// A dry run of nothing says whether this process takes deliveries, and whether who looks may send one. Nothing may be no delivery.
	if _, err := c.API.TestSource(ctx, team, name, api.SourceTest{Body: "{}", DryRun: true}); err != nil && schemas.KindOf(err) != schemas.Invalid {
		return nil, "", err
	}
	p = &sourceTestPage{Name: team + "/" + name, Back: sourceLink(team, name), Path: testLink(team, name), Preset: item.Preset}
	for _, s := range samples.Names() {
		if strings.HasPrefix(s, item.Preset+"/") {
			p.Samples = append(p.Samples, s)
		}
	}
	return p, item.Preset, nil
}

// sendTest says what a test would do, and with send=yes sends it. Where the event goes must be what the form has said before.
func (c *Console) sendTest(ctx context.Context, r *http.Request) (any, error) {
	s, err := posted(r)
	if err != nil {
		return nil, err
	}
	p, _, err := c.testOf(ctx, r)
	if err != nil {
		return nil, err
	}
	lines := strings.NewReplacer("\r\n", "\n") // browsers send each end of a line so, of hidden fields, too
	p.Body, p.Headers = lines.Replace(s.Get("body")), lines.Replace(s.Get("headers"))
	test := api.SourceTest{Body: p.Body, Reason: s.Reason, By: s.By, DryRun: s.Get("send") != "yes"}
	if s.Get("to") != "" {
		test.To = strings.Split(s.Get("to"), ", ")
	}
	if test.Headers, err = typedHeaders(s.Get("ids") + "\n" + p.Headers); err != nil {
		return p, err
	}
	team, name := r.PathValue("team"), r.PathValue("source")
	if p.Tested, err = c.API.TestSource(ctx, team, name, test); err != nil {
		return p, err
	}
	if p.Tested.State == api.StateDone {
		if p.Tested.Result == delivery.Event {
			p.Inbox = "/console/inbox?" + url.Values{"team": {team}, "source": {name}, "type": {p.Tested.Type}}.Encode()
		}
		return p, nil
	}
	right := access.Sources
	if len(p.Tested.To) > 0 {
		right = access.Operate
	}
	p.Form = formFor(ctx, right, team, p.Path, "Send the test", field{"body", p.Body}, field{"headers", p.Headers}, field{"ids", headerLines(p.Tested.IDs)}, field{"to", strings.Join(p.Tested.To, ", ")}, field{"send", "yes"})
	return p, nil
}

// headerLines writes headers, one a line.
func headerLines(headers map[string]string) string {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		lines.WriteString(name + ": " + headers[name] + "\n")
	}
	return lines.String()
}

// typedHeaders reads headers, one a line.
func typedHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, schemas.Errorf(schemas.Invalid, "", "the header %q is not NAME: VALUE", line)
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}
