package integration

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestPeopleAtTheConsole is a console where people log in, in a browser: by keyboard, with a token that opens nothing and with one that does;
// and what they see when their session ends while a page is open, be it live, a form, or left alone for an hour.
func TestPeopleAtTheConsole(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	ca := rig.NewAuthority(t)
	cert := ca.Issue("operator", time.Hour)
	r.edit("topics: {", "operator: {auth: tokens, public_url: \"https://${env:OPERATOR}\", tls: {cert_file: "+cert.Cert+", key_file: "+cert.Key+"}}\ntopics: {")
	r.variables = []string{"SSL_CERT_FILE=" + ca.CAFile}
	var mended atomic.Bool
	r.agent.answers(http.StatusUnprocessableEntity, func(call) bool { return !mended.Load() })
	p := r.start("intake,stream")
	k := &keys{r, "https://" + p.operator}
	k.waitReady(k.client(ca))
	r.deliver(issue(7, 1, 1))
	root := k.make("", "root", "--role", "admin", "--all-teams", "-c", r.config)
	for _, name := range []string{"ann", "bob", "carol", "dan"} {
		k.make(root, name, "--role", "responder", "--team", r.team)
	}
	dead := k.waitDead(root)
	b := openBrowser(t, k.url)
	const inbox, refused = "/console/inbox?entity=7%2F1", "status of 401"

	b.open(inbox)
	b.waitAt("/console/login?next=" + url.QueryEscape(inbox))
	b.check("login")
	b.typeToken("fbo_" + strings.Repeat("x", 43))
	b.see("alert", "The token is not known, has expired or was revoked. An admin makes a new one.")
	b.complained(refused)
	b.check("login-refused")
	b.typeToken(k.token("ann"))
	b.waitAt(inbox)
	b.see("status", "Live")
	b.see("row", "dead_letter")
	b.check("inbox-of-ann")

	k.must(root, "tokens", "revoke", "ann", "--reason", "she left")
	b.see("status", "Not live: your session has ended: log in again")
	b.check("inbox-ended")
	b.click("link", "Log in, and come back here")
	b.see("alert", "Your session has ended: log in again.")
	b.typeToken(k.token("bob"))
	b.waitAt(inbox)
	b.see("status", "Live")

	b.click("button", "Pause")
	r.sql(`UPDATE forebay.sessions SET used_at = now() - interval '2 hours'`)
	b.click("button", "Go on")
	b.see("status", "Not live: your session has ended: log in again")
	b.see("link", "Log in, and come back here")
	b.complained(refused, refused) // of the view, and of the question why

	page := "/console/dlq/replay?action=" + dead
	b.open(page)
	b.waitAt("/console/login?next=" + url.QueryEscape(page))
	b.typeToken(k.token("carol"))
	b.waitAt(page)
	k.must(root, "tokens", "revoke", "carol", "--reason", "she left, too")
	b.confirm("Replay 1 dead letter", "the agent is <b>mended</b>")
	b.see("alert", "Your session has ended, and nothing was done. Log in again, and send the form once more.")
	b.says("What you had sent", "the agent is <b>mended</b>")
	b.complained(refused)
	b.check("form-ended")
	asked := func() string { return k.must(root, "audit", "list", "--action", "dlq.replay", "-o", "jsonl") }
	if out := asked(); out != "" {
		t.Errorf("a form without a session has asked for something: %s", out)
	}
	mended.Store(true)
	b.typeToken(k.token("dan"))
	b.waitAt(page)
	b.confirm("Replay 1 dead letter", "the agent is mended")
	b.see("heading", "What became of it")
	if !rig.Until(time.Minute, func() bool { return r.doneAt("7/1") }) {
		t.Errorf("the agent did not see the replay: %+v", r.agent.snapshot())
	}
	if out := asked(); !containsAll(out, `"actor":"dan"`, `"the agent is mended"`) {
		t.Errorf("the audit: %s", out)
	}
	b.click("button", "Log out")
	b.waitAt("/console/login")
	k.entered(root, "nobody console.login refused", "ann console.login done", "bob console.login done", "carol console.login done", "dan console.login done", "dan console.logout done")
	b.open("/console/audit")
	b.waitAt("/console/login?next=%2Fconsole%2Faudit")
	b.complained()
}

// entered wants logins and logouts in the audit, and no others: who, what and the outcome, the oldest first.
func (k *keys) entered(root string, want ...string) {
	k.t.Helper()
	var got []string
	for line := range strings.Lines(k.must(root, "audit", "list", "-o", "jsonl")) {
		var row struct{ Actor, Action, Object, Outcome string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			k.t.Fatal(err)
		}
		if strings.HasPrefix(row.Action, "console.") {
			got = append([]string{row.Actor + " " + row.Action + " " + row.Outcome}, got...)
			if row.Object != "127.0.0.1" {
				k.t.Errorf("%s came from %s", row.Actor, row.Object)
			}
		}
	}
	if !slices.Equal(got, want) {
		k.t.Errorf("the audit has %q, want %q", got, want)
	}
}

// token is the text of a token that make has made.
func (k *keys) token(name string) string {
	k.t.Helper()
	text, err := os.ReadFile(k.dir + "/" + name)
	if err != nil {
		k.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// typeToken logs in by the keyboard alone: the page has the focus where a token is typed.
func (b *browser) typeToken(token string) {
	b.t.Helper()
	if !rig.Until(time.Minute, func() bool { return b.do("focused") == "token" }) {
		b.t.Fatalf("on the login page, the focus is on %q", b.do("focused"))
	}
	b.do("type", "text", token)
	b.do("press", "name", "Enter")
}
