package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/header"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/reader"
)

// sourceTests sends test deliveries to this process's own intake, over its listener, as a provider does.
type sourceTests struct{ a *App }

// TestSource implements [api.SourceTests].
func (t sourceTests) TestSource(ctx context.Context, team, name string, r api.SourceTest, may func(*api.SourceTested) error) (*api.SourceTested, error) {
	source, ok := t.a.intake.sources.find(team, name)
	if !ok {
		return nil, names.Source.Unknown(names.Name{Team: team, Name: name}, configured(t.a.file()).sources)
	}
	intake := t.address() + "/v1/in/" + team + "/" + name
	header, err := testHeader(r.Headers)
	if err != nil {
		return nil, err
	}
	d := &verify.Request{Method: http.MethodPost, URL: cmp.Or(source.PublicURL, intake), Header: header.Clone(), Body: []byte(r.Body)}
	if err := source.Sign(d, time.Now()); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "", "it cannot be signed here: %w", err)
	}
	out, events := planned(source, d)
	out.To = t.readers(team, name, events)
	for _, name := range idHeaders(t.a.file().Teams[team].Sources[name]) {
		if made := d.Header.Get(name); made != "" && header.Get(name) == "" {
			out.IDs[http.CanonicalHeaderKey(name)] = made
		}
	}
	if r.DryRun {
		return out, nil
	}
	if err := may(out); err != nil {
		return nil, err
	}
	d.URL = intake // some schemes sign the public one, which need not lead here
	answer, err := delivery.Post(ctx, d, true)
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "send a test to the intake", "%w", err)
	}
	out.State, out.Status, out.Result, out.EventID = api.StateDone, answer.Status, answer.Result, cmp.Or(answer.ID, out.EventID)
	t.a.log.Warn("a test delivery was sent", "source", "/"+team+"/"+name, "event_id", out.EventID, "result", out.Result, "by", r.By, "why", r.Reason)
	return out, nil
}

// planned takes a delivery through the steps of the intake, in their order, and says what becomes of it. Of a list it tells the first element;
// the events are those of all.
func planned(source *ingest.Source, d *verify.Request) (out *api.SourceTested, events []*schemas.Event) {
	out = &api.SourceTested{State: api.StatePlanned, To: []string{}, IDs: map[string]string{}}
	ends := func(result string, err error) (*api.SourceTested, []*schemas.Event) {
		out.Result, out.Why = result, err.Error()
		return out, events
	}
	now := time.Now()
	if err := source.Verifier.Verify(d, now); err != nil {
		return ends(delivery.Refused, err)
	}
	if size := int64(len(d.Body)); source.MaxBody > 0 && size > source.MaxBody {
		return ends(delivery.Refused, fmt.Errorf("%d bytes are more than max_body, %d", size, source.MaxBody))
	}
	if _, handshake := source.Challenge(d); handshake {
		out.Result = delivery.Answered
		return out, nil
	}
	elements := []verify.Request{*d}
	if source.Several() {
		var err error
		if elements, err = source.Split(d); err != nil {
			return ends(delivery.Quarantined, err)
		}
		if len(elements) == 0 {
			return ends(delivery.Event, errors.New("its list has no elements, so nothing comes of it"))
		}
	}
	var first error
	for i := range elements {
		e, err := source.Event(&elements[i], now)
		if err == nil {
			err = e.Validate()
		}
		if err == nil {
			_, _, err = source.CheckSchema(e)
		}
		switch {
		case err == nil:
			events = append(events, e)
		case i == 0:
			first = err
		}
	}
	if first != nil {
		return ends(delivery.Quarantined, first)
	}
	e := events[0]
	out.Result, out.EventID, out.Type, out.Entity = delivery.Event, e.ID, e.Type, string(e.Entity)
	return out, events
}

// wants reports whether types and match of a subscription let an event in; where match fails, it may after all.
func wants(s *config.Subscription, e *schemas.Event) bool {
	if !reader.Globs(s.Types)(e.Type, e.Source) {
		return false
	}
	match, err := policy.Select(s.Match, "")
	if err != nil || match == nil {
		return err == nil
	}
	matches, _, err := match(e)
	return matches || err != nil
}

// testHeader returns the headers of a test as they arrive at the intake: what is planned with them holds for what is sent.
func testHeader(typed map[string]string) (http.Header, error) {
	given := map[string]schemas.Secret{}
	for name, value := range typed {
		if value != textproto.TrimString(value) {
			return nil, schemas.Errorf(schemas.Invalid, "", "the value of header %q begins or ends with a space", name)
		}
		given[name] = schemas.NewSecret(value)
	}
	h, err := header.Compile(given)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "", "%w", err)
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	return h, nil
}

// address is where this process's intake listens, from this machine.
func (t sourceTests) address() string {
	at := netip.MustParseAddrPort(t.a.Addr("intake").String())
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at.Port())
	}
	return "http://" + at.String()
}

// readers returns who reads one of a source's events: subscriptions of its team by name, and of others the teams, sorted.
func (t sourceTests) readers(team, name string, events []*schemas.Event) []string {
	c, to := t.a.file(), []string{}
	for _, full := range c.ReadersOf(team, name) {
		reads, sub, _ := strings.Cut(full, ".")
		if s := c.Teams[reads].Subscriptions[sub]; c.Barred(reads, sub) != "" || !slices.ContainsFunc(events, func(e *schemas.Event) bool { return wants(s, e) }) {
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
