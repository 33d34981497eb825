package backfill

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/schemas"
)

func mustTemplate(t testing.TB, use Use, text string) *Template {
	t.Helper()
	tpl, err := ParseTemplate(use, text)
	if err != nil {
		t.Fatal(err)
	}
	return tpl
}

func TestExpand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		use       Use
		url       string
		v         Values
		want      string
		wantError string
	}{
		{Gap, "https://api.github.com/repos/{entity.0}/{entity.1}/pulls/{entity.2}", Values{Entity: "octo/hello/42"},
			"https://api.github.com/repos/octo/hello/pulls/42", ""},
		{Gap, "https://api/{entity}", Values{Entity: "186853002/42"}, "https://api/186853002/42", ""},
		{Gap, "https://api/o?key={entity}", Values{Entity: "a%2Fb/42"}, "https://api/o?key=a%252Fb%2F42", ""},
		{Gap, "https://api/o?id={entity.0}&f={from}&t={to}", Values{Entity: "a%2Fb%26c", From: "3", To: "7"},
			"https://api/o?id=a%2Fb%26c&f=3&t=7", ""},
		{Gap, "https://api/{entity.0}", Values{Entity: "a%2Fb"}, "https://api/a%2Fb", ""},
		{Gap, "https://api/v-{entity.0}.json", Values{Entity: ".."}, "https://api/v-...json", ""},
		{Gap, "https://api:8443?e={entity.0}", Values{Entity: "ü"}, "https://api:8443?e=%C3%BC", ""},
		{Gap, "https://api/%7Bx%7D/{entity}", Values{Entity: "e"}, "https://api/%7Bx%7D/e", ""},
		{Body, "https://api/{type}/{id}", Values{ID: "a b", Type: "x?y#z"}, "https://api/x%3Fy%23z/a%20b", ""},
		{Body, "https://api/{id}", Values{ID: "%2e%2e"}, "https://api/%252e%252e", ""},

		{Gap, "https://api/{entity.1}", Values{Entity: "a"}, "", "the entity has only 1 parts"},
		{Gap, "https://api/{entity.0}/x", Values{Entity: ".."}, "", "as a segment"},
		{Gap, "https://api/{entity}", Values{Entity: "a/%2E%2E/b"}, "", "as a segment"},
		{Gap, "https://api/{entity}", Values{Entity: "./b"}, "", "as a segment"},
		{Gap, "https://api/.{entity}", Values{Entity: "."}, "", "as a segment"},
		{Gap, "https://api/{entity}", Values{Entity: "a//b"}, "", "{entity} has no value"},
		{Gap, "https://api/{entity}", Values{Entity: ""}, "", "{entity} has no value"},
		{Gap, "https://api/{entity}", Values{Entity: "%zz"}, "", "not percent-encoded"},
		{Gap, "https://api/{entity}", Values{Entity: "a%0Ab"}, "", "control character"},
		{Gap, "https://api/{from}", Values{Entity: "a"}, "", "{from} has no value"},
		{Body, "https://api/{id}", Values{ID: "a\x00"}, "", "control character"},
		{Body, "https://api/{id}{id}{id}{id}", Values{ID: strings.Repeat("ü", 400)}, "", "more than 8000"},
	} {
		got, err := mustTemplate(t, test.use, test.url).Expand(test.v)
		switch {
		case test.wantError != "":
			if err == nil || !strings.Contains(err.Error(), test.wantError) {
				t.Errorf("%s with %+v: %v, %v; want %q", test.url, test.v, got, err, test.wantError)
			}
		case err != nil || got.String() != test.want:
			t.Errorf("%s with %+v: %v, %v; want %s", test.url, test.v, got, err, test.want)
		}
	}
}

func TestParseTemplateRefuses(t *testing.T) {
	t.Parallel()
	const token = "s3cr3t-t0ken"
	for _, test := range []struct {
		use       Use
		url, want string
	}{
		{Gap, "", "is missing"}, {Gap, "api/{entity}", "not an absolute"}, {Gap, "ftp://h/{entity}", "not an absolute"},
		{Gap, "https:///{entity}", "no host"}, {Gap, "https://{entity}/", "scheme or host"}, {Gap, "https://h{entity.0}.example/", "scheme or host"},
		{Gap, "https://h:{from}/", "scheme or host"}, {Gap, "{entity}://h/", "not an absolute"}, {Gap, "https://{entity}", "scheme or host"},
		{Gap, "https://u:" + token + "@h/", "credentials"}, {Gap, "https://h/#{entity}", "fragment"}, {Gap, "https://h/?a#b", "fragment"},
		{Gap, "https://h/{id}", "{id}, which means nothing in backfill"}, {Body, "https://h/{from}", "{from}, which means nothing in thin"},
		{Gap, "https://h/{Entity}", "means nothing"}, {Gap, "https://h/{}", "means nothing"}, {Gap, "https://h/{entity.}", "not a number from"},
		{Gap, "https://h/{entity.-1}", "not a number from"}, {Gap, "https://h/{entity.01}", "not a number from"}, {Gap, "https://h/{entity.100}", "not a number from"},
		{Gap, "https://h/{entity", "without a }"}, {Gap, "https://h/entity}", "without a {"}, {Gap, "https://h/{{entity}}", "means nothing"},
		{Gap, "https://h/../{entity}", ". or .."}, {Gap, "https://h/%2e%2e/{entity}", ". or .."}, {Gap, "https://h/a b", "percent-encode"},
		{Gap, "https://h/?a=" + token + " b", "percent-encode"}, {Gap, "https://h/ü", "percent-encode"}, {Gap, "https://h/%zz", "parsed"},
		{Gap, "https://h/?" + token + "=%zz", "encodes nothing"}, {Gap, "https://h/\r\nx", "percent-encode"}, {Gap, "https://%68/" + token, "host with a %"}, {Gap, "https://h:99999x/" + token, "parsed"},
	} {
		_, err := ParseTemplate(test.use, test.url)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %q", test.url, err, test.want)
		} else if strings.Contains(err.Error(), token) {
			t.Errorf("the error shows the URL: %v", err)
		}
	}
}

func TestTemplateNeverPrints(t *testing.T) {
	t.Parallel()
	tpl := mustTemplate(t, Gap, "https://h/{entity}?token=s3cr3t")
	if text := fmt.Sprintf("%v %+v %#v %s", tpl, tpl, tpl, tpl); strings.Contains(text, "s3cr3t") {
		t.Errorf("the template prints %s", text)
	}
}

// checkExpanded holds what an expansion must keep, whatever the values: the place it goes to, the number of segments,
// and each value as one thing that reads back.
func checkExpanded(t interface {
	Fatalf(format string, args ...any)
}, u *url.URL, values []string) {
	if u.Scheme != "https" || u.Host != "api.example:8443" || u.User != nil || u.Fragment != "" {
		t.Fatalf("%q goes to another place", u)
	}
	segments := strings.Split(u.EscapedPath(), "/")
	if len(segments) != 5 || segments[1] != "v1" || segments[3] != "x" {
		t.Fatalf("%q has other segments", u)
	}
	for _, s := range segments {
		if dots(s) || s == "" && len(segments) > 1 && s != segments[0] {
			t.Fatalf("%q has the segment %q", u, s)
		}
	}
	for i, want := range map[int]string{2: values[0], 4: values[1]} {
		if got, err := url.PathUnescape(segments[i]); err != nil || got != want {
			t.Fatalf("segment %d of %q is %q, want %q", i, u, got, want)
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || len(query) != 2 || query.Get("b") != "1" || query.Get("a") != values[0] {
		t.Fatalf("%q has the query %v, %v; want a=%q and b=1", u, query, err, values[0])
	}
}

const checked = "https://api.example:8443/v1/{entity.0}/x/{entity.1}?a={entity.0}&b=1"

func TestExpandProperty(t *testing.T) {
	t.Parallel()
	tpl := mustTemplate(t, Gap, checked)
	expanded := 0
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("./%?#&=:@\\ 2eE;+"))))
		values := []string{value.Draw(t, "first"), value.Draw(t, "second")}
		u, err := tpl.Expand(Values{Entity: schemas.NewEntityKey(values...)})
		if err == nil {
			expanded++
			checkExpanded(t, u, values)
		}
	})
	if expanded == 0 {
		t.Error("nothing was ever expanded")
	}
}

// FuzzExpand takes entities as they may stand on a foreign record, encoded or not.
func FuzzExpand(f *testing.F) {
	tpl := mustTemplate(f, Gap, checked)
	for _, s := range []string{"a/b", "../..", "%2e%2e/%2E", "a%2Fb/c", "a/b/c", "%/x", "a?b/c#d", "a/\x00", "//", "@h/:1", `a\..\b/c`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, entity string) {
		u, err := tpl.Expand(Values{Entity: schemas.EntityKey(entity)})
		if err != nil {
			return
		}
		parts := strings.Split(entity, "/")
		var values []string
		for _, p := range parts[:2] {
			v, err := url.PathUnescape(p)
			if err != nil {
				t.Fatalf("%q was taken: %v", entity, err)
			}
			values = append(values, v)
		}
		checkExpanded(t, u, values)
	})
}

// FuzzParseTemplate: what compiles goes to one host for ever, whatever the values.
func FuzzParseTemplate(f *testing.F) {
	for _, s := range []string{checked, "https://h/{id}", "https://h{", "https://h?{entity}", "http://h//{entity}/..", "https://h/{entity.0}@x", "https://[::1]/{entity}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tpl, err := ParseTemplate(Gap, text)
		if err != nil {
			return
		}
		start, _ := pathStart(text)
		for _, entity := range []string{"a/b", "@evil/..x", "%2F%2Fevil/b"} {
			u, err := tpl.Expand(Values{Entity: schemas.EntityKey(entity), From: "1", To: "2"})
			if err != nil {
				continue
			}
			if u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme+"://"+u.Host != text[:start] {
				t.Fatalf("%q with %q goes to %q", text, entity, u)
			}
		}
	})
}
