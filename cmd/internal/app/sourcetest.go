package app

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/reader"
)

// sourceTests sends test deliveries to this process's own intake, over its listener, as a provider does.
type sourceTests struct{ a *App }

// TestSource implements [api.SourceTests].
func (t sourceTests) TestSource(ctx context.Context, team, name string, r api.SourceTest) (*api.SourceTested, error) {
	source, ok := t.a.intake.sources.find(team, name)
	if !ok {
		return nil, names.Source.Unknown(names.Name{Team: team, Name: name}, configured(t.a.file()).sources)
	}
	d, err := signedTest(source, t.address()+"/v1/in/"+team+"/"+name, r)
	if err != nil {
		return nil, err
	}
	out := &api.SourceTested{State: api.StatePlanned, To: []string{}}
	if _, handshake := source.Challenge(d); handshake {
		out.Result = delivery.Answered
	} else if e, err := source.Event(d, time.Now()); err != nil {
		out.Result, out.Why = delivery.Quarantined, err.Error()
	} else {
		out.Result, out.EventID, out.Type, out.Entity, out.To = delivery.Event, e.ID, e.Type, string(e.Entity), t.readers(team, name, e.Type)
	}
	if r.DryRun {
		return out, nil
	}
	out.State = api.StateDone
	answer, err := delivery.Post(ctx, d, true)
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "send a test to the intake", "%w", err)
	}
	out.Status, out.Result, out.EventID = answer.Status, answer.Result, cmp.Or(answer.ID, out.EventID)
	t.a.log.Warn("a test delivery was sent", "source", "/"+team+"/"+name, "event_id", out.EventID, "result", out.Result, "by", r.By, "why", r.Reason)
	return out, nil
}

// signedTest returns a delivery to a URL, signed with the source's first secret.
func signedTest(source *ingest.Source, to string, r api.SourceTest) (*verify.Request, error) {
	d := &verify.Request{Method: http.MethodPost, URL: to, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(r.Body)}
	for name, value := range r.Headers {
		d.Header.Set(name, value)
	}
	if source.PublicURL != "" {
		d.URL = source.PublicURL // what is signed, where the URL is; the request goes to this process
	}
	if err := source.Sign(d, time.Now()); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "", "it cannot be signed here: %w", err)
	}
	d.URL = to
	return d, nil
}

// address is where this process's intake listens, from this machine.
func (t sourceTests) address() string {
	at := netip.MustParseAddrPort(t.a.Addr("intake").String())
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at.Port())
	}
	return "http://" + at.String()
}

// readers returns who reads events of a type of a source: subscriptions of its team by name, and of others the teams, sorted.
func (t sourceTests) readers(team, name, eventType string) []string {
	c, to := t.a.file(), []string{}
	for _, full := range c.ReadersOf(team, name) {
		reads, sub, _ := strings.Cut(full, ".")
		if c.Barred(reads, sub) != "" || !reader.Globs(c.Teams[reads].Subscriptions[sub].Types)(eventType, "") {
			continue
		}
		if reads != team {
			full = "team " + reads
		}
		to = append(to, full)
	}
	slices.Sort(to)
	return slices.Compact(to)
}
