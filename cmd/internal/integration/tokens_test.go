package integration

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// keys asks a guarded listener by the command line, each time with a token.
type keys struct {
	*deployment
	url string
}

// make makes a token by another, or in the ledger itself where that is empty, and returns the file that it is in.
func (k *keys) make(by, name string, args ...string) (file string) {
	k.t.Helper()
	out, said := k.ask(by, append([]string{"tokens", "create", name, "--reason", "the suite"}, args...)...)
	if said != "" || !strings.HasPrefix(out, "fbo_") {
		k.t.Fatalf("tokens create %s: %q %s", name, out, said)
	}
	file = filepath.Join(k.dir, name)
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		k.t.Fatal(err)
	}
	return file
}

// ask runs a command with the token of a file; said is its exit status and what it says if it fails.
func (k *keys) ask(file string, args ...string) (out, said string) {
	k.t.Helper()
	args = append(args, "--url", k.url)
	if file != "" {
		args = append(args, "--token-file", file)
	}
	text, err := k.try("127.0.0.1:0", args...)
	if err != nil {
		said = err.Error()
	}
	return string(text), said
}

// must asks what has an answer, which it returns.
func (k *keys) must(file string, args ...string) string {
	k.t.Helper()
	out, said := k.ask(file, args...)
	if said != "" {
		k.t.Errorf("forebay %s: %s", strings.Join(args, " "), said)
	}
	return out
}

// refused asks what has an exit status, and words, instead.
func (k *keys) refused(file, status, words string, args ...string) string {
	k.t.Helper()
	out, said := k.ask(file, args...)
	if !strings.HasPrefix(said, "exit status "+status) || !strings.Contains(said, words) || strings.HasPrefix(out, "fbo_") {
		k.t.Errorf("forebay %s: %q, %q, want exit status %s and %q", strings.Join(args, " "), out, said, status, words)
	}
	return said
}

// TestTokens has two teams share a listener with TLS: the first token is made in the ledger, the others by it; each opens what its role, its
// right to payloads and its team allow, as the command line tells it, until it is revoked.
func TestTokens(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	pay := r.team + "-pay"
	ca := rig.NewAuthority(t)
	cert := ca.Issue("operator", time.Hour)
	r.edit("topics: {", "operator: {auth: tokens, public_url: \"https://${env:OPERATOR}\", tls: {cert_file: "+cert.Cert+", key_file: "+cert.Key+"}}\ntopics: {")
	r.edit("teams:\n", "teams:\n  "+pay+`:
    sources: {till: {preset: github, secrets: ["${env:GITHUB_SECRET}"]}}
    destinations: {out: {type: log}}
    subscriptions: {settle: {sources: [till], actions: [{name: run, to: out}]}}
`)
	r.variables = []string{"SSL_CERT_FILE=" + ca.CAFile}
	r.command("topics", "apply", "-c", r.config)
	bad := issue(7, 1, 1)
	r.agent.answers(http.StatusUnprocessableEntity, func(c call) bool { return c.event == bad.id })
	p := r.start("intake,stream")
	k := &keys{r, "https://" + p.operator}
	client := k.client(ca)
	serial := k.waitReady(client)
	r.deliver(bad, issue(7, 2, 1))

	k.refused("", "4", "FOREBAY_TOKEN", "inbox", "list")
	root := k.make("", "root", "--role", "admin", "--all-teams", "-c", r.config)
	viewer, responder := k.make(root, "ann", "--role", "viewer", "--team", r.team), k.make(root, "bob", "--role", "responder", "--team", r.team, "--expires", "1h")
	stranger := k.make(root, "eve", "--role", "operator", "--team", pay)
	k.refused(root, "4", "makes no token that may", "tokens", "create", "carl", "--role", "viewer", "--all-teams", "--payloads", "--reason", "x")
	k.refused(root, "3", "no team", "tokens", "create", "carl", "--role", "viewer", "--team", "nobody", "--reason", "x")
	k.refused(root, "6", "not used twice", "tokens", "create", "ann", "--role", "viewer", "--all-teams", "--reason", "x")
	k.refused(viewer, "4", "admin may", "tokens", "list")
	seeing := k.make("", "sue", "--role", "viewer", "--team", r.team, "--payloads", "-c", r.config)

	id := k.waitDead(viewer)
	k.seesItsTeam(viewer, id)
	k.strangerSeesNothing(stranger, k.make(root, "olga", "--role", "operator", "--team", r.team), id)
	k.refused(viewer, "4", "--payloads", "inbox", "raw", r.team+"/triage/github/"+bad.id)
	if raw := k.must(seeing, "inbox", "raw", r.team+"/triage/github/"+bad.id); raw != string(bad.body) {
		t.Errorf("raw: %.200q", raw)
	}
	k.refused(viewer, "4", "responder, operator, admin may", "destinations", "pause", r.team+"/agent", "--reason", "x")
	k.must(responder, "destinations", "pause", r.team+"/agent", "--reason", "they move")
	if got := k.must(viewer, "destinations", "get", r.team+"/agent", "-o", "json"); !strings.Contains(got, `"by": "bob"`) {
		t.Errorf("who has paused it: %s", got)
	}
	all, err := os.ReadFile(k.make("", "otto", "--role", "admin", "--all-teams", "--payloads", "-c", r.config))
	if err != nil {
		t.Fatal(err)
	}
	asDescribed(t, client, k.url, strings.TrimSpace(string(all)), map[string]string{"team": r.team, "subscription": "triage", "source": "github", "event": bad.id,
		"entity": "7/1", "action": id, "replay": "1", "destination": "agent"})
	k.must(responder, "dlq", "discard", id, "--reason", "seen")

	list := k.must(root, "tokens", "list", "-o", "json")
	var page struct {
		Items []struct {
			Name   string
			UsedAt *time.Time `json:"used_at"`
		}
	}
	if err := json.Unmarshal([]byte(list), &page); err != nil || len(page.Items) != 7 || page.Items[0].Name != "ann" || page.Items[0].UsedAt == nil || page.Items[6].Name != "sue" {
		t.Errorf("%v %s", err, list)
	}
	k.must(root, "tokens", "revoke", "ann", "--reason", "she left")
	if !rig.Until(time.Minute, func() bool {
		_, said := k.ask(viewer, "sources", "list")
		return strings.HasPrefix(said, "exit status 4")
	}) {
		t.Error("a revoked token still opens after 30 s")
	}
	k.must("", "tokens", "revoke", "otto", "--reason", "he left, too", "-c", r.config)
	if rows := k.must(root, "audit", "list", "--action", "token.revoke", "-o", "jsonl"); !containsAll(rows, `"before":{"name":"ann","role":"viewer","teams":["`+r.team+`"]`, `"before":{"name":"otto","role":"admin","teams":null`) {
		t.Errorf("what the tokens were is not kept: %s", rows)
	}
	k.noTokenIsShown(p, root, viewer, responder, stranger, seeing)
	k.renew(ca, client, cert, serial)
}

// waitReady waits for a listener with TLS, and returns the serial number of its certificate.
func (k *keys) waitReady(client *http.Client) (serial string) {
	k.t.Helper()
	if !rig.Until(60*time.Second, func() bool {
		resp, err := client.Get(k.url + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		serial = resp.TLS.PeerCertificates[0].SerialNumber.String()
		return resp.StatusCode == http.StatusOK && resp.ProtoMajor == 1
	}) {
		k.t.Fatal("not ready over TLS and HTTP/1.1")
	}
	return serial
}

// client makes a connection for each request, over TLS.
func (k *keys) client(ca *rig.Authority) *http.Client {
	k.t.Helper()
	pem, err := os.ReadFile(ca.CAFile)
	if err != nil {
		k.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
}

// waitDead waits for the one dead letter, and returns its id.
func (k *keys) waitDead(token string) (id string) {
	k.t.Helper()
	if !rig.Until(time.Minute, func() bool {
		out, _ := k.ask(token, "dlq", "list", "-o", "id")
		id = strings.TrimSpace(out)
		return strings.HasPrefix(id, "act_") && !strings.Contains(id, "\n")
	}) {
		k.t.Fatalf("no dead letter: %q", id)
	}
	return id
}

// seesItsTeam looks at everything that a team has, and at a dead letter by the beginning of its id.
func (k *keys) seesItsTeam(token, dead string) {
	k.t.Helper()
	for _, noun := range []string{"sources", "subscriptions", "destinations", "inbox", "dlq", "quarantine", "replay"} {
		if out := k.must(token, noun, "list", "-o", "json"); strings.Contains(out, "-pay") {
			k.t.Errorf("%s list shows another team's: %s", noun, out)
		}
	}
	k.must(token, "attention")
	if out := k.must(token, "dlq", "get", dead[:12], "-o", "json"); !strings.Contains(out, dead) {
		k.t.Errorf("dlq get: %s", out)
	}
}

// strangerSeesNothing has somebody of another team look for the dead letter, and for one that is not there: they are told the same. Nor do
// they get at a replay.
func (k *keys) strangerSeesNothing(stranger, operator, dead string) {
	k.t.Helper()
	missing := dead[:len(dead)-4] + "aaaa"
	for _, verb := range [][]string{{"get"}, {"replay", "--reason", "mine"}, {"discard", "--reason", "mine"}} {
		args := func(id string) []string { return append([]string{"dlq", verb[0], id}, verb[1:]...) }
		theirs, nobodys := k.refused(stranger, "", "nothing", args(dead)...), k.refused(stranger, "", "nothing", args(missing)...)
		if strings.ReplaceAll(theirs, dead, "ID") != strings.ReplaceAll(nobodys, missing, "ID") {
			k.t.Errorf("of another team's dead letter: %s; of none: %s", theirs, nobodys)
		}
	}
	k.refused(stranger, "3", "nothing", "inbox", "list", "--team", k.team)
	k.refused(stranger, "3", "nothing", "replay", "plan", "--subscription", k.team+".triage", "--since", "1h")
	id := strings.TrimSpace(k.must(operator, "replay", "plan", "--subscription", k.team+".triage", "-o", "id"))
	k.refused(stranger, "3", "nothing", "replay", "get", id)
	k.refused(stranger, "3", "nothing", "replay", "cancel", id, "--reason", "mine")
	k.must(operator, "replay", "get", id)
}

// noTokenIsShown looks for the tokens in the log and in the ledger.
func (k *keys) noTokenIsShown(p *process, files ...string) {
	k.t.Helper()
	for _, file := range files {
		token, err := os.ReadFile(file)
		if err != nil {
			k.t.Fatal(err)
		}
		if token = bytes.TrimSpace(token); strings.Contains(p.output(), string(token)) {
			k.t.Error("a token is in the log")
		}
		if strings.Contains(k.must(files[0], "tokens", "list", "-o", "json"), string(token)) {
			k.t.Error("a token is listed")
		}
	}
}

// renew puts another certificate in the place of the listener's, which shows it without a restart.
func (k *keys) renew(ca *rig.Authority, client *http.Client, old rig.Issued, serial string) {
	k.t.Helper()
	renewed := ca.Issue("renewed", time.Hour)
	for to, from := range map[string]string{old.Key: renewed.Key, old.Cert: renewed.Cert} {
		if err := os.Rename(from, to); err != nil {
			k.t.Fatal(err)
		}
	}
	if again := k.waitReady(client); again == serial {
		k.t.Errorf("the listener still shows certificate %s", again)
	}
}

// TestTokenThatTheAuditLacks: a token that is made is shown, also where the audit cannot say so any more.
func TestTokenThatTheAuditLacks(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	create := func(name string) (string, error) {
		out, err := r.try("127.0.0.1:0", "tokens", "create", name, "--role", "viewer", "--all-teams", "--reason", "the suite", "-c", r.config)
		return string(out), err
	}
	r.sql(`CREATE FUNCTION forebay.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no space left' USING ERRCODE = 'disk_full'; END $$`)
	r.sql(`CREATE TRIGGER full_disk BEFORE INSERT ON forebay.audit FOR EACH ROW EXECUTE FUNCTION forebay.full_disk()`)
	if out, err := create("ann"); err == nil || out != "" {
		t.Fatalf("%q, %v: nothing was to be made that the audit does not have", out, err)
	}
	r.sql(`DROP TRIGGER full_disk ON forebay.audit`)
	r.sql(`CREATE TRIGGER full_disk BEFORE UPDATE ON forebay.audit FOR EACH ROW EXECUTE FUNCTION forebay.full_disk()`)
	out, err := create("bob")
	if err == nil || !strings.HasPrefix(out, "fbo_") || !strings.Contains(err.Error(), "token bob is made") {
		t.Fatalf("%q, %v", out, err)
	}
	if out := string(r.command("tokens", "list", "-c", r.config, "-o", "id")); out != "bob\n" {
		t.Errorf("tokens: %q", out)
	}
}
