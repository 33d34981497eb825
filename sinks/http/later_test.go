package httpsink

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// TestLater: only a call that says how it may be finished later is taken with 202, and only with that status.
func TestLater(t *testing.T) {
	t.Parallel()
	later := sink.Later{URL: "https://forebay.example/v1/actions/act_1", Token: schemas.NewSecret("fba2_secret-of-one-attempt"),
		Deadline: 30 * time.Minute, Heartbeat: time.Minute}
	quiet := later
	quiet.Heartbeat = 0
	for name, tt := range map[string]struct {
		later *sink.Later
		code  int
		taken bool
		sent  map[string]string
	}{
		"taken": {&later, 202, true, map[string]string{
			"Forebay-Result-Url": later.URL + "/result", "Forebay-Heartbeat-Url": later.URL + "/heartbeat",
			"Forebay-Action-Token": later.Token.Reveal(), "Forebay-Deadline": "1800", "Forebay-Heartbeat": "60",
		}},
		"without heartbeats": {&quiet, 202, true, map[string]string{
			"Forebay-Result-Url": later.URL + "/result", "Forebay-Action-Token": later.Token.Reveal(), "Forebay-Deadline": "1800",
		}},
		"done at once": {&quiet, 200, false, nil},
		"not offered":  {nil, 202, false, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := map[string]string{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for _, h := range []string{"Forebay-Result-Url", "Forebay-Heartbeat-Url", "Forebay-Action-Token", "Forebay-Deadline", "Forebay-Heartbeat"} {
					if r.Header.Get(h) != "" {
						sent[h] = r.Header.Get(h)
					}
				}
				w.WriteHeader(tt.code)
				_, _ = w.Write([]byte("taken with " + r.Header.Get("Forebay-Action-Token")))
			}))
			defer server.Close()
			a := sinktest.Action(1)
			a.Later = tt.later
			out, err := must(t, Config{URL: server.URL, Common: spec.Common{AllowNetworks: loopback}}).Do(t.Context(), a)
			if err != nil || out.Later != tt.taken || out.Code != tt.code {
				t.Errorf("%+v, %v", out, err)
			}
			if tt.sent != nil {
				if d := cmp.Diff(tt.sent, sent); d != "" {
					t.Error(d)
				}
			}
			if strings.Contains(string(out.Response), "secret-of-one-attempt") {
				t.Errorf("the token is kept with the answer: %s", out.Response)
			}
		})
	}
}
