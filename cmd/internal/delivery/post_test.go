package delivery

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/verify"
)

// What the intake answers is told apart, and a redirect is an answer like another.
func TestPost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		body   string
		want   Answer
		said   string // in the header of an answer of another form
	}{
		{202, `{"id":"e-1"}` + "\n", Answer{202, "e-1", Event, `{"id":"e-1"}`, nil, 0}, ""},
		{202, `{"id":null}`, Answer{202, "", Quarantined, `{"id":null}`, nil, 0}, ""},
		{202, `{"id":null,"events":3,"quarantined":0}`, Answer{202, "", Event, `{"id":null,"events":3,"quarantined":0}`, &List{3, 0}, 0}, ""},
		{202, `{"id":null,"events":1,"quarantined":2}`, Answer{202, "", Event, `{"id":null,"events":1,"quarantined":2}`, &List{1, 2}, 0}, ""},
		{202, `{"id":null,"events":0,"quarantined":2}`, Answer{202, "", Quarantined, `{"id":null,"events":0,"quarantined":2}`, &List{0, 2}, 0}, ""},
		{202, `{"id":null,"events":0,"quarantined":0}`, Answer{202, "", Event, `{"id":null,"events":0,"quarantined":0}`, &List{}, 0}, ""},
		{200, `{"challenge":"x"}`, Answer{200, "", Answered, `{"challenge":"x"}`, nil, 0}, ""},
		{200, "ok", Answer{200, "", Answered, "ok", nil, 0}, ""},
		{200, "", Answer{200, "e-1", Event, "", nil, 0}, `{"id":"e-1"}`},
		{200, "ok", Answer{200, "", Quarantined, "ok", nil, 0}, `{"id":null}`},
		{200, "ok", Answer{200, "", Event, "ok", &List{2, 0}, 0}, `{"id":null,"events":2,"quarantined":0}`},
		{401, "", Answer{401, "", Refused, "", nil, 0}, ""},
		{429, "", Answer{429, "", Refused, "", nil, 7 * time.Second}, ""},
		{307, "", Answer{307, "", Refused, "", nil, 0}, ""},
		{413, strings.Repeat("x", 2*maxAnswer), Answer{413, "", Refused, strings.Repeat("x", maxAnswer), nil, 0}, ""},
	} {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.status, own), func(t *testing.T) {
				t.Parallel()
				calls := 0
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if calls++; calls > 1 || r.Header.Get("X-Signature") != "s" || r.ContentLength != 4 {
						t.Errorf("call %d: %v, %d bytes", calls, r.Header, r.ContentLength)
					}
					w.Header().Set("Location", "/elsewhere")
					if tt.said != "" {
						w.Header().Set(ingest.HeaderAnswer, tt.said)
					}
					if tt.want.RetryAfter > 0 {
						w.Header().Set("Retry-After", "7")
					}
					w.WriteHeader(tt.status)
					fmt.Fprint(w, tt.body)
				}))
				t.Cleanup(server.Close)
				got, err := Post(t.Context(), &verify.Request{Method: http.MethodPost, URL: server.URL, Header: http.Header{"X-Signature": {"s"}}, Body: []byte("body")}, own)
				if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
					t.Error(diff, err)
				}
			})
		}
	}
	if _, err := Post(t.Context(), &verify.Request{Method: http.MethodPost, URL: "http://127.0.0.1:1"}, true); err == nil {
		t.Error("nobody listens there")
	}
}
