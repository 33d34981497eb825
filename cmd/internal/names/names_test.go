package names_test

import (
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
)

var (
	sources = []names.Name{{"acme", "github"}, {"acme", "orders"}, {"me", "github"}, {"me", "payments"}}
	shared  = []names.Name{{"", "pagers"}, {"acme", "pagers"}, {"acme", "coder"}}
	subs    = []names.Name{{"acme", "triage"}, {"demo", "triage"}, {"demo", "incidents"}}
)

// TestFind: what is printed is found, what could be two things or none is an error that says what to type.
func TestFind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind       names.Kind
		known      []names.Name
		text, team string
		want       string // as it is printed, or what the error says
		err        schemas.Kind
	}{
		{names.Source, sources, "me/payments", "", "me/payments", ""},
		{names.Source, sources, "/me/payments", "", "me/payments", ""},
		{names.Source, sources, "payments", "", "me/payments", ""},
		{names.Source, sources, "github", "me", "me/github", ""},
		{names.Source, sources, "me/github", "me", "me/github", ""},
		{names.Source, sources, "github", "", "several teams have a source github: name one of acme/github, me/github", schemas.Invalid},
		{names.Source, sources, "me/github", "acme", "source me/github is not of team acme", schemas.Invalid},
		{names.Source, sources, "me/paymets", "", "no source me/paymets is known; did you mean me/payments? `forebay sources list -o id` lists them", schemas.NotFound},
		{names.Source, sources, "paymets", "", "did you mean me/payments?", schemas.NotFound},
		{names.Source, sources, "payments", "acme", "no source acme/payments is known; did you mean me/payments?", schemas.NotFound},
		{names.Source, sources, "zzz", "", "no source zzz is known; `forebay sources list -o id`", schemas.NotFound},
		{names.Source, nil, "zzz", "", "no source zzz is known; `forebay", schemas.NotFound},
		{names.Source, sources, "events.acme.github", "", "is not TEAM/SOURCE", schemas.Invalid},
		{names.Source, sources, "/", "", "is not TEAM/SOURCE", schemas.Invalid},
		{names.Source, sources, "/github/", "", "is not TEAM/SOURCE", schemas.Invalid},
		{names.Destination, shared, "pagers", "", "pagers", ""},
		{names.Destination, shared, "acme/pagers", "", "acme/pagers", ""},
		{names.Destination, shared, "pagers", "acme", "acme/pagers", ""},
		{names.Destination, shared, "pagers", "demo", "pagers", ""},
		{names.Destination, shared, "coder", "", "acme/coder", ""},
		{names.Destination, shared, "demo/pagers", "", "no destination demo/pagers is known; did you mean pagers?", schemas.NotFound},
		{names.Destination, shared, "/acme/coder", "", "is not TEAM/DESTINATION", schemas.Invalid},
		{names.Subscription, subs, "demo.triage", "", "demo.triage", ""},
		{names.Subscription, subs, "demo/triage", "", "demo.triage", ""},
		{names.Subscription, subs, "incidents", "", "demo.incidents", ""},
		{names.Subscription, subs, "triage", "", "name one of acme.triage, demo.triage", schemas.Invalid},
		{names.Subscription, subs, "demo.triag", "", "did you mean demo.triage?", schemas.NotFound},
		{names.Subscription, subs, "demo.triage.more", "", "is not TEAM.SUBSCRIPTION", schemas.Invalid},
		{names.Subscription, subs, ".triage", "", "is not TEAM.SUBSCRIPTION", schemas.Invalid},
	} {
		got, err := tt.kind.Find(tt.text, tt.team, tt.known)
		switch {
		case tt.err == "" && (err != nil || tt.kind.Print(got) != tt.want):
			t.Errorf("%s %q of %q: %s, %v", tt.kind.What, tt.text, tt.team, tt.kind.Print(got), err)
		case tt.err != "" && (err == nil || schemas.KindOf(err) != tt.err || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s %q of %q: %v (%s), want %s", tt.kind.What, tt.text, tt.team, err, schemas.KindOf(err), tt.want)
		}
		if tt.err == "" { // what is printed is understood, whatever else there is
			if again, err := tt.kind.Find(tt.kind.Print(got), "", tt.known); err != nil || again != got {
				t.Errorf("%s is printed as %s, and read as %v: %v", tt.kind.What, tt.kind.Print(got), again, err)
			}
		}
	}
}

// TestIDsRoundTrip: every id that is printed is read as what it was printed of.
func TestIDsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, e := range []names.Event{
		{"acme", "triage", "github", "sha256:ab"}, {"acme", "triage", "github", "a/b//c%2F 3@4"},
		{"acme", "triage", "/other/github", "1"}, {"acme", "triage", "urn:x%y/z", "1"}, {"acme", "fulfil", "events.acme.orders", "3@17"},
	} {
		if got, err := names.ParseEvent(e.String()); err != nil || got != e {
			t.Errorf("%+v is printed as %s, and read as %+v: %v", e, e, got, err)
		}
	}
	for text, want := range map[string]names.Place{"3@17": {"events.acme.orders", 3, 17}, "0@-9": {"events.acme.orders", 0, -9}} {
		if got, ok := names.ParseRecord("events.acme.orders", text); !ok || got != want || got.ID() != text {
			t.Errorf("%s: %+v %t", text, got, ok)
		}
	}
	for _, tt := range [][2]string{{"orders", "3@17"}, {"events.acme.orders", "17"}, {"events.acme.orders", "a@1"}, {"events.acme.orders", "1@"}, {"events.acme.orders", "9999999999@1"}} {
		if got, ok := names.ParseRecord(tt[0], tt[1]); ok {
			t.Errorf("%s is taken for a place: %+v", tt, got)
		}
	}
	d := names.Delivery{Source: names.Name{Team: "acme", Name: "orders"}, Partition: 2, Offset: 9}
	if got, err := names.ParseDelivery(d.String()); err != nil || got != d {
		t.Errorf("%s: %+v %v", d, got, err)
	}
	for _, text := range []string{"events.acme.orders/0@1", "quarantine.acme.orders/0", "quarantine.acme/0@1", "quarantine.a.b/0@-1", "", "7"} {
		if got, err := names.ParseDelivery(text); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a/b/c", "a/b/c/", "a//c/d", "/b/c/d", "a/b/%zz/d"} {
		if got, err := names.ParseEvent(text); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
	for _, args := range [][2]string{{"acme/triage/github", "1/2"}, {"acme/triage/github/1/2", ""}} {
		if got, err := names.ParseEntity(args[0], args[1]); err != nil || got != (names.Entity{"acme", "triage", "github", "1/2"}) {
			t.Errorf("%q: %+v %v", args, got, err)
		}
	}
	if _, err := names.ParseEntity("acme/triage/github", ""); schemas.KindOf(err) != schemas.Invalid {
		t.Error(err)
	}
}

func TestOneOf(t *testing.T) {
	t.Parallel()
	values := []string{"applied", "stale"}
	if err := names.OneOf("decision", "stale", values); err != nil {
		t.Error(err)
	}
	if err := names.OneOf("decision", "", values); err != nil {
		t.Error(err)
	}
	if err := names.OneOf("decision", "stail", values); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), `decision "stail" is not one of applied, stale; did you mean stale?`) {
		t.Error(err)
	}
}
