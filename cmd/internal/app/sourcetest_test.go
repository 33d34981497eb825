package app

import (
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/schemas"
)

// TestTestsAreSentAsPlanned: what the intake makes of a test is what was planned with, whatever its headers look like; nothing is sent that may
// not be; and what is sent twice acts once.
func TestTestsAreSentAsPlanned(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	p := r.run(config.RoleIntake, config.RoleStream)
	tests := sourceTests{p.app}
	refused := errors.New("may not")
	_, edited := issue(7, 1)
	for name, headers := range map[string]map[string]string{
		"a tab in front":   {"X-GitHub-Event": "\tissues"},
		"twice":            {"X-GitHub-Event": "ping", "x-github-event": "issues"},
		"a space in it":    {"X GitHub": "x"},
		"not sent as such": {"Content-Length": "1"},
	} {
		for _, dry := range []bool{true, false} {
			_, err := tests.TestSource(t.Context(), "acme", "github", api.SourceTest{Body: string(edited.Body), Headers: headers, DryRun: dry},
				func(*api.SourceTested) error { return refused })
			if schemas.KindOf(err) != schemas.Invalid || errors.Is(err, refused) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	last := order("o-3", 1)
	test := api.SourceTest{Body: `{"type":"order.changed","order":"o-1","rev":1}`, DryRun: true}
	planned, err := tests.TestSource(t.Context(), "acme", "orders", test, nil)
	if err != nil || planned.Result != delivery.Event || planned.Type != "order.changed" || !cmp.Equal(planned.To, []string{"acme.fulfil"}) || planned.IDs["X-Event-Id"] != planned.EventID {
		t.Fatalf("%+v %v", planned, err)
	}
	test.Headers, test.DryRun = maps.Clone(planned.IDs), false
	for range 2 {
		sent, err := tests.TestSource(t.Context(), "acme", "orders", test, func(again *api.SourceTested) error {
			if again.EventID != planned.EventID || !cmp.Equal(again.To, planned.To) || len(again.IDs) > 0 {
				t.Errorf("planned again: %+v", again)
			}
			return nil
		})
		if err != nil || sent.Status != http.StatusAccepted || sent.Result != delivery.Event || sent.EventID != planned.EventID {
			t.Errorf("%+v %v", sent, err)
		}
	}
	if _, err := tests.TestSource(t.Context(), "acme", "orders", api.SourceTest{Body: `{"type":"order.changed","order":"o-2","rev":1}`},
		func(*api.SourceTested) error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	for _, tt := range []struct{ body, result, why string }{
		{`{"type":"order.changed"}`, delivery.Quarantined, "/order"}, {`{`, delivery.Quarantined, "not_json"},
		{strings.Repeat("x", 26<<20), delivery.Refused, "max_body"},
	} {
		got, err := tests.TestSource(t.Context(), "acme", "orders", api.SourceTest{Body: tt.body, DryRun: true}, nil)
		if err != nil || got.Result != tt.result || !strings.Contains(got.Why, tt.why) || len(got.To) > 0 {
			t.Errorf("%.40s: %+v %v", tt.body, got, err)
		}
	}
	p.accepted("orders", "orders-secret", last)
	calls := agent.wait(t, 2)
	entities := map[string]int{}
	for _, c := range calls {
		entities[c.Entity]++
	}
	if want := map[string]int{"o-1": 1, "o-3": 1}; !cmp.Equal(entities, want) {
		t.Errorf("the agent was called for %v", entities)
	}
	p.clean()
}

// TestReadersOfATest: subscriptions of the source's team that take the type, and other teams that it is shared with, once and by the team alone.
func TestReadersOfATest(t *testing.T) {
	t.Parallel()
	var a App
	a.current.Store(&config.Config{Teams: map[string]*config.Team{
		"acme": {Sources: map[string]*config.Source{"orders": {Share: []string{"pay"}}}, Subscriptions: map[string]*config.Subscription{
			"all": {Sources: []string{"orders"}}, "large": {Sources: []string{"orders"}, Match: "body.total > 10"}, "none": {Sources: []string{"orders"}, Match: "body.total < 0"}, "issues": {Sources: []string{"orders"}, Types: []string{"com.github.*"}}, "other": {Sources: []string{"carts"}}}},
		"pay": {Subscriptions: map[string]*config.Subscription{
			"risk": {Sources: []string{"acme/orders"}}, "tax": {Sources: []string{"acme/orders"}}, "issues": {Sources: []string{"acme/orders"}, Types: []string{"x"}}}},
	}})
	of := func(eventType, body string) *schemas.Event {
		return &schemas.Event{Type: eventType, Data: []byte(body)}
	}
	for name, tt := range map[string]struct {
		events []*schemas.Event
		want   []string
	}{
		"nothing": {nil, []string{}}, "by type": {[]*schemas.Event{of("com.github.issues", `{"total":5}`)}, []string{"acme.all", "acme.issues", "team pay"}},
		"match leaves it out": {[]*schemas.Event{of("order.changed", `{"total":5}`)}, []string{"acme.all", "team pay"}},
		"match takes it":      {[]*schemas.Event{of("order.changed", `{"total":50}`)}, []string{"acme.all", "acme.large", "team pay"}},
		"match fails":         {[]*schemas.Event{of("order.changed", `{}`)}, []string{"acme.all", "acme.large", "acme.none", "team pay"}},
		"another of a list":   {[]*schemas.Event{of("order.changed", `{"total":5}`), of("com.github.x", `{"total":11}`)}, []string{"acme.all", "acme.issues", "acme.large", "team pay"}},
	} {
		if diff := cmp.Diff(tt.want, sourceTests{&a}.readers("acme", "orders", tt.events)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, name := range []string{"all", "large", "none"} {
		delete(a.file().Teams["acme"].Subscriptions, name)
	}
	delete(a.file().Teams, "pay")
	if got := (sourceTests{&a}).readers("acme", "orders", []*schemas.Event{of("order.changed", `{}`)}); got == nil || len(got) != 0 {
		t.Errorf("of nobody: %v", got)
	}
}
