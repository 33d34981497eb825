package app

import (
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
)

// TestDestinationsByName: filters take what commands call a destination by; those of before among them, which the ledger knows.
func TestDestinationsByName(t *testing.T) {
	t.Parallel()
	mail := map[string]*config.Destination{"mail": {}}
	c := &config.Config{
		Destinations: map[string]*config.Destination{"pagers": {Teams: []string{"acme"}}},
		Teams:        map[string]*config.Team{"acme": {Destinations: mail}, "beta": {Destinations: map[string]*config.Destination{"pagers": {}}}, "gamma": {}},
	}
	file := configured(c)
	ledger := file
	ledger.destinations = append(ledger.destinations, names.Name{Team: "acme", Name: "pagers"}, names.Name{Team: "acme", Name: "gone"}, names.Name{Name: "once-shared"})
	for _, tt := range []struct {
		known            known
		team, name, want string // an empty want: it is not known
	}{
		{file, "", "", ""},
		{file, "", "acme/mail", "acme/mail"},
		{file, "", "mail", "acme/mail"},
		{file, "acme", "mail", "acme/mail"},
		{file, "", "pagers", "pagers"},
		{file, "acme", "pagers", "pagers"},
		{file, "beta", "pagers", "beta/pagers"},
		{file, "gamma", "pagers", ""}, // as if it were not there
		{file, "acme", "acme/pagers", ""},
		{ledger, "acme", "acme/pagers", "acme/pagers"}, // before it was shared
		{ledger, "acme", "gone", "acme/gone"},
		{ledger, "", "gone", "acme/gone"},
		{ledger, "", "once-shared", "once-shared"},
	} {
		team, name := tt.team, tt.name
		err := queryNames{&team, new(string), new(string), &name}.resolve(tt.known)
		switch unknown := tt.want == "" && tt.name != ""; {
		case unknown && schemas.KindOf(err) != schemas.NotFound:
			t.Errorf("%q of team %q is %q, %v; nobody knows it", tt.name, tt.team, name, err)
		case !unknown && (err != nil || name != tt.want):
			t.Errorf("%q of team %q is %q, %v; want %q", tt.name, tt.team, name, err, tt.want)
		}
	}
}
