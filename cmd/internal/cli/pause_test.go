package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// A pause says whom it is not for, and what is different for one team has the main file.
func TestWhatIsOfAllTeams(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := any(api.ScopeItem{Scope: api.PauseAll, Elsewhere: []string{"acme.pay"}})
		if r.Method == http.MethodGet {
			answer = api.Page[api.ConfigDifference]{Items: []api.ConfigDifference{{Path: "forebay.yaml", Reason: "not_taken"}, {Path: "kafka.brokers", Reason: "needs_restart"}, {Team: "pay", Path: "pay.yaml", Reason: "not_taken"}}}
		}
		json.NewEncoder(w).Encode(answer)
	}))
	defer s.Close()
	for _, tt := range []struct{ args, out, err string }{
		{"pause --all --reason x -o id", "all\n", "not for acme.pay: another process has that ledger"},
		{"config diff --team acme -o id", "forebay.yaml\n", ""},
	} {
		var out, errs bytes.Buffer
		code := Main(t.Context(), append(strings.Fields(tt.args), "--url", s.URL), Options{Stdout: &out, Stderr: &errs})
		if code != exitOK || out.String() != tt.out || !strings.Contains(errs.String(), tt.err) {
			t.Errorf("%s: %d %q %q", tt.args, code, out.String(), errs.String())
		}
	}
}

// A change that was sent and has no answer may be done, and the command says so; a dry run and a question change nothing.
func TestWhatHasNoAnswerMayBeDone(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer s.Close()
	for args, may := range map[string]bool{
		"pause --all --reason x": true, "destinations resume acme/coder --reason x": true, "replay start 7 --reason x": true,
		"pause --all --dry-run": false, "attention": false,
	} {
		var errs bytes.Buffer
		code := Main(t.Context(), append(strings.Fields(args), "--url", s.URL), Options{Stdout: &bytes.Buffer{}, Stderr: &errs})
		if code != exitFailed || !strings.Contains(errs.String(), "EOF") || strings.Contains(errs.String(), "perhaps it is done") != may {
			t.Errorf("%s: %d %s", args, code, errs.String())
		}
	}
}

// What comes for a paused team is not decided: inbox list has nothing of it until the team is resumed, and pause says so.
func TestPauseSaysWhatItStops(t *testing.T) {
	t.Parallel()
	for want, all := range map[string][]steerFlags{
		"no decision and no attempt": {{All: true}, {Team: "acme"}},
		"no attempt":                 {{Agent: "coder"}, {Destination: "acme/coder"}},
	} {
		for _, c := range all {
			if got := c.stops(); got != want {
				t.Errorf("%+v: %s", c, got)
			}
		}
	}
}
