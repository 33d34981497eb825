package integration

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"

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
