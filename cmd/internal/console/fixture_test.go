package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
)

// TestFixture: what a page shows is read as what was sent, whatever a sender has written, and has none of the event's attributes.
func TestFixture(t *testing.T) {
	t.Parallel()
	item := &api.InboxItem{Team: "acme", Subscription: "triage", Source: "github", EventID: "e 1", ReceivedAt: new(time.Unix(7, 0).UTC())}
	headers := []api.DeadHeader{{Key: "ce_id", Value: "e"}, {Key: "http_x-github-event", Value: "push"}}
	for _, body := range []string{`{"a": "<b>&"}`, "", "\u202eé\U0001F600\x7f\u0000\u2028\r\n", "\xff\x00"} {
		raw := &api.InboxRecord{ContentType: "application/json", Headers: headers, Body: []byte(body), Bytes: len(body)}
		got := fixtureOf(item, raw)
		if shown := string(visible([]byte(got.Text))); shown != got.Text {
			t.Errorf("%q: the page shows %q", got.Text, shown)
		}
		f, err := delivery.Read(strings.NewReader(got.Text))
		if err != nil || string(f.Content()) != body || f.Source != "acme/github" || !f.Received.Equal(*item.ReceivedAt) {
			t.Errorf("%q: %+v, %v", body, f, err)
		}
		if diff := cmp.Diff(http.Header{"Content-Type": {"application/json"}, "X-Github-Event": {"push"}}, f.Header()); diff != "" {
			t.Error(diff)
		}
	}
	item.Source = "/pay/orders"
	long := fixtureOf(item, &api.InboxRecord{Headers: headers, Body: []byte("x"), Bytes: inlineBody + 1})
	const want = "forebay inbox raw 'acme/triage/%2Fpay%2Forders/e 1' > body\nforebay send pay/orders -c forebay.yaml --file body \\\n  --header X-Github-Event=push"
	if long.Text != "" || long.Send != want {
		t.Errorf("%+v", long)
	}
}
