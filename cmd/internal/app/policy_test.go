package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// TestSends: who is asked for an approval sees the parameters as they are made of the event, and its body, without what a reference led to; a long
// text is cut with a mark, and what is behind the cut is in the digest all the same.
func TestSends(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf(deploymentText, "127.0.0.1:9092", `postgres: {url: "postgres://127.0.0.1:5432/none"}`, "http://127.0.0.1:1")
	text = strings.Replace(text, "    destinations:\n", "    destinations:\n      chat: {type: slack, token: xoxb-1, params: {channel: C0123456789, text: \"paid <b> {{body.order}}, ${env:PASSPHRASE}\"}}\n", 1)
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(text), Lookup: func(string) (string, bool) { return "correct-horse-7", true }})
	if err != nil {
		t.Fatal(err)
	}
	s := &streams{a: &App{}}
	s.a.current.Store(c)
	act := func(to, data string) ([32]byte, string) {
		return s.sends(sink.Action{Name: "run", Subscription: "acme.fulfil", Destination: "acme/" + to, ID: "act_1",
			Event: &schemas.Event{ID: "e1", Source: "/acme/orders", Type: "t", Entity: "o-1", DataContentType: "application/json", Data: []byte(data)}})
	}
	_, got := act("chat", `{"order": "o-1"}`)
	for _, want := range []string{"the parameters:\n{\n", `"channel": "C0123456789"`, `paid <b> o-1, `, "the event's body:\n{\"order\": \"o-1\"}"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in what is shown:\n%s", want, got)
		}
	}
	if strings.Contains(got, "correct-horse-7") {
		t.Errorf("what a reference led to is shown:\n%s", got)
	}
	long := `{"order": "` + strings.Repeat("é", ledger.MaxApprovalSends) + `"`
	one, cut := act("agent", long+"}")
	if len(cut) > ledger.MaxApprovalSends || !strings.HasSuffix(cut, cutMark) || strings.Contains(cut, "\uFFFD") {
		t.Errorf("%d bytes that end with %q", len(cut), cut[len(cut)-60:])
	}
	if other, same := act("agent", long+`, "x": 1}`); other == one || same != cut {
		t.Error("what is behind the cut makes no other digest")
	}
}
