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

// Where a process looks for no alerts, its list is not taken for quiet, nor a silence for one of what Prometheus tells.
func TestAlertsNotLookedFor(t *testing.T) {
	t.Parallel()
	const silenced = "alert ForebayLag is silenced until"
	const none = "no receiver is in the file: this process looks for no alerts (alerts.receivers); Prometheus knows which fire, silence them there"
	for _, not := range []bool{true, false} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodPost {
				_ = json.NewEncoder(w).Encode(api.SilenceItem{ID: 1, Alert: "ForebayLag"})
				return
			}
			_ = json.NewEncoder(w).Encode(api.AlertList{NotLookedFor: not})
		}))
		defer s.Close()
		for args, want := range map[string]string{"list": "nothing to list", "list --silences": "nothing to list",
			"silence ForebayLag --for 1h --reason known": silenced} {
			var out, errs bytes.Buffer
			code := Main(t.Context(), append(append([]string{"alerts"}, strings.Fields(args)...), "--url", s.URL), Options{Stdout: &out, Stderr: &errs})
			if code != 0 || strings.Contains(errs.String(), none) != not || strings.Contains(errs.String(), want) != (!not || want != silenced) {
				t.Errorf("%s, not looked for %t: code %d\n%s\n%s", args, not, code, out.String(), errs.String())
			}
		}
	}
}
