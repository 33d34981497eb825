package integration

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// visitor is somebody who looks at the console, with a browser's cookies.
type visitor struct {
	*keys
	http *http.Client
	form string // what the forms of the session have
}

func (k *keys) visitor(ca *rig.Authority) *visitor {
	k.t.Helper()
	client := k.client(ca)
	jar, err := cookiejar.New(nil)
	if err != nil {
		k.t.Fatal(err)
	}
	client.Jar = jar
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &visitor{keys: k, http: client}
}

var formsField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// look returns a page, and where it leads.
func (v *visitor) look(path string) (status int, page, to string) {
	v.t.Helper()
	resp, err := v.http.Get(v.url + path)
	return v.read(resp, err)
}

// send sends a form of the session.
func (v *visitor) send(path string, form url.Values) (status int, page, to string) {
	v.t.Helper()
	if form == nil {
		form = url.Values{}
	}
	if v.form != "" {
		form.Set("csrf", v.form)
	}
	resp, err := v.http.PostForm(v.url+path, form)
	return v.read(resp, err)
}

func (v *visitor) read(resp *http.Response, err error) (status int, page, to string) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	if found := formsField.FindSubmatch(body); found != nil {
		v.form = string(found[1])
	}
	return resp.StatusCode, string(body), resp.Header.Get("Location")
}

// TestLogin looks at the console of a listener with tokens, over TLS: logs in, looks, has a dead letter run again, and is out once the token is
// revoked, or by logging out.
func TestLogin(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	ca := rig.NewAuthority(t)
	cert := ca.Issue("operator", time.Hour)
	r.edit("topics: {", "operator: {auth: tokens, public_url: \"https://${env:OPERATOR}\", tls: {cert_file: "+cert.Cert+", key_file: "+cert.Key+"}}\ntopics: {")
	r.variables = []string{"SSL_CERT_FILE=" + ca.CAFile}
	r.command("topics", "apply", "-c", r.config)
	bad := issue(7, 1, 1)
	mended := make(chan struct{}) // closed once the agent takes it
	r.agent.answer = func(c call) int {
		select {
		case <-mended:
			return http.StatusOK
		default:
			return http.StatusUnprocessableEntity
		}
	}
	p := r.start("intake,stream")
	k := &keys{r, "https://" + p.operator}
	k.waitReady(k.client(ca))
	if err := r.sender.deliver(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	root := k.make("", "root", "--role", "admin", "--all-teams", "-c", r.config)
	ann := k.make(root, "ann", "--role", "responder", "--team", r.team)
	id := k.waitDead(root)

	v := k.visitor(ca)
	page := "/console/dlq/replay?action=" + url.QueryEscape(id)
	status, _, to := v.look(page)
	if want := "/console/login?next=" + url.QueryEscape(page); status != http.StatusSeeOther || to != want {
		t.Fatalf("%d %s", status, to)
	}
	unknown := url.Values{"token": {"fbo_" + strings.Repeat("x", 43)}, "next": {page}}
	if status, said, _ := v.send("/console/login", unknown); status != http.StatusUnauthorized || !strings.Contains(said, "The token is not known, has expired or was revoked.") {
		t.Errorf("%d %s", status, said)
	}
	v.logIn(ann, page)
	status, said, _ := v.look(page)
	if status != http.StatusOK || !strings.Contains(said, "ann, responder of "+r.team) || !strings.Contains(said, id) || strings.Contains(said, "Who asks") {
		t.Fatalf("%d %s", status, said)
	}
	close(mended)
	until := regexp.MustCompile(`name="until" value="([^"]+)"`).FindStringSubmatch(said)
	if until == nil {
		t.Fatal(said)
	}
	form := url.Values{"action": {id}, "until": {until[1]}, "reason": {"the agent is mended"}, "by": {"mallory"}}
	if status, said, _ := v.send("/console/dlq/replay", form); status != http.StatusOK || !strings.Contains(said, "asked to run again") {
		t.Fatalf("%d %s", status, said)
	}
	if !rig.Until(30*time.Second, func() bool { return k.must(root, "inbox", "list", "--status", "done", "-o", "id") != "" }) {
		t.Error("the replay had no effect")
	}
	if out := k.must(root, "audit", "list", "--action", "dlq.replay", "-o", "json"); !strings.Contains(out, `"actor": "ann"`) || !strings.Contains(out, "the agent is mended") || strings.Contains(out, "mallory") {
		t.Errorf("the audit: %s", out)
	}
	v.form = "x"
	if status, _, _ := v.send("/console/logout", nil); status == http.StatusSeeOther {
		t.Error("a form of nobody logs out")
	}
	v.look("/console/")
	if status, _, to := v.send("/console/logout", nil); status != http.StatusSeeOther || to != "/console/login" {
		t.Errorf("%d %s", status, to)
	}
	if status, _, _ := v.look("/console/"); status != http.StatusSeeOther {
		t.Errorf("after the logout: %d", status)
	}
	v.form = ""
	v.logIn(ann, "/console/")
	k.must(root, "tokens", "revoke", "ann", "--reason", "she left")
	if status, _, to := v.look("/console/"); status != http.StatusSeeOther || !strings.HasPrefix(to, "/console/login") {
		t.Errorf("after the token is revoked: %d %s", status, to)
	}
	v.noSecretIsLogged(p, root, ann)
}

// logIn logs in with a token, which leads to a page.
func (v *visitor) logIn(file, page string) {
	v.t.Helper()
	token, err := os.ReadFile(file)
	if err != nil {
		v.t.Fatal(err)
	}
	form := url.Values{"token": {string(token)}, "next": {page}}
	if status, said, to := v.send("/console/login", form); status != http.StatusSeeOther || to != page {
		v.t.Fatalf("%d %s %s", status, to, said)
	}
	if status, _, _ := v.look(page); status != http.StatusOK {
		v.t.Fatalf("%s: %d", page, status)
	}
}

// noSecretIsLogged looks for tokens and cookies in the log.
func (v *visitor) noSecretIsLogged(p *process, files ...string) {
	v.t.Helper()
	at, err := url.Parse(v.url)
	if err != nil {
		v.t.Fatal(err)
	}
	cookies := v.http.Jar.Cookies(at)
	if len(cookies) == 0 {
		v.t.Error("the browser has no cookie")
	}
	for _, c := range cookies {
		if strings.Contains(p.output(), c.Value) || !strings.HasPrefix(c.Name, "__Host-") {
			v.t.Errorf("the cookie %s is in the log, or not for this host alone", c.Name)
		}
	}
	v.noTokenIsShown(p, files...)
}
