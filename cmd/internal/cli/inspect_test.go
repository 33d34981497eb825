package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// TestInboxGetShowsTheAnswer of an action's last attempt if that has failed: errors say that the answer has the words. Of an attempt whose beginning
// is not kept, it does not show that it took no time.
func TestInboxGetShowsTheAnswer(t *testing.T) {
	t.Parallel()
	failed := api.AttemptItem{Attempt: 1, Class: "unavailable", Error: "unavailable: refused; the answer has its words", Response: "ERROR: relation \"x\" does not exist\n"}
	lines := api.AttemptItem{Attempt: 1, Class: "unavailable", Response: "a\r\nb\x1b\n\n"}
	done := api.AttemptItem{Attempt: 2, Code: 200, Response: "fine"}
	for _, tt := range []struct {
		attempts []api.AttemptItem
		want     string
	}{
		{[]api.AttemptItem{failed}, "\n       answer: ERROR: relation \"x\" does not exist\n"},
		{[]api.AttemptItem{lines}, "\n       answer: a\n               b\uFFFD\n"},
		{[]api.AttemptItem{failed, done}, ""},
	} {
		var out bytes.Buffer
		showItem(&out, &api.InboxDetail{Actions: []api.ActionItem{{Attempts: tt.attempts}}})
		if got := out.String(); strings.Contains(got, "answer:") != (tt.want != "") || !strings.Contains(got, tt.want) || strings.Contains(got, "0.0 ms") {
			t.Errorf("%s", got)
		}
	}
}
