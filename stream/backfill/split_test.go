package backfill

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas/scan"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body, items string
		limit             int
		want              []string
		more              bool
		err               string
	}{
		{"object", ` {"a": 1} `, "", 9, []string{`{"a": 1}`}, false, ""},
		{"array", `[{"a":1} , {"b":[2]}]`, "", 9, []string{`{"a":1}`, `{"b":[2]}`}, false, ""},
		{"bytes as they came", `[{"n":1.50,"s":"\u00e9"}]`, "", 9, []string{`{"n":1.50,"s":"\u00e9"}`}, false, ""},
		{"empty array", `[]`, "", 9, nil, false, ""},
		{"null", `null`, "", 9, nil, false, ""},
		{"no content", ``, "", 9, nil, false, ""},
		{"limit", `[1,2,3]`, "", 2, []string{`1`, `2`}, true, ""},
		{"at the limit", `[1,2]`, "", 2, []string{`1`, `2`}, false, ""},
		{"wrapped", `{"data":{"items":[{"a":1}]},"next":null}`, "/data/items", 9, []string{`{"a":1}`}, false, ""},
		{"wrapped object", `{"order":{"a":1}}`, "/order", 9, []string{`{"a":1}`}, false, ""},
		{"index and escapes", `[0,{"a/b~c":[7]}]`, "/1/a~1b~0c", 9, []string{`7`}, false, ""},
		{"null where items points", `{"data":null}`, "/data", 9, nil, false, ""},

		{"not JSON", `<html>`, "", 9, nil, false, "not JSON"},
		{"cut off", `[{"a":1},`, "", 9, nil, false, "not JSON"},
		{"two values", `{} {}`, "", 9, nil, false, "not JSON"},
		{"text", `"a"`, "", 9, nil, false, "neither an object nor an array"},
		{"number", `12`, "", 9, nil, false, "neither an object nor an array"},
		{"nothing there", `{"a":[]}`, "/b", 9, nil, false, "the answer has nothing where items points"},
		{"nothing below", `{"a":1}`, "/a/b", 9, nil, false, "the answer has nothing where items points"},
		{"index out of range", `[1]`, "/1", 9, nil, false, "the answer has nothing"},
		{"name twice", `{"a":[1],"a":[2]}`, "/a", 9, nil, false, "duplicate_key"},
	} {
		items, err := scan.Compile(test.items)
		if err != nil {
			t.Fatal(err)
		}
		got, more, err := split([]byte(test.body), items, test.limit)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %q", test.name, err, test.err)
			}
			continue
		}
		var texts []string
		for _, e := range got {
			texts = append(texts, string(e))
		}
		if err != nil || more != test.more || !cmp.Equal(texts, test.want) {
			t.Errorf("%s: %q, %v, %v; want %q, %v", test.name, texts, more, err, test.want, test.more)
		}
	}
	for _, bad := range []string{"data", "/a~", "/a~2b", "#/a"} {
		if _, err := scan.Compile(bad); err == nil {
			t.Errorf("items %q was taken", bad)
		}
	}
}

// FuzzSplit: no answer panics, and each element is valid JSON that stands in the answer.
func FuzzSplit(f *testing.F) {
	f.Add([]byte(`{"data":[{"a":1},2,"x"]}`), "/data")
	f.Add([]byte(`[[],{},null]`), "/1")
	f.Add([]byte(`{"a":{"a":1},"a":2}`), "/a/a")
	f.Add([]byte(" [ 1 , 2 ] "), "")
	f.Fuzz(func(t *testing.T, body []byte, text string) {
		items, err := scan.Compile(text)
		if err != nil {
			return
		}
		elements, more, err := split(body, items, 3)
		if err != nil {
			return
		}
		if len(elements) > 3 || more && len(elements) != 3 {
			t.Fatalf("%d elements, more %v", len(elements), more)
		}
		for _, e := range elements {
			if !json.Valid(e) || !bytes.Contains(body, e) {
				t.Fatalf("element %q", e)
			}
		}
	})
}

func TestNextPage(t *testing.T) {
	t.Parallel()
	const at = "https://api.example:8443/repos/o/r/pulls?page=1"
	for _, test := range []struct {
		links []string
		want  string // "": none; "!": refused
	}{
		{nil, ""},
		{[]string{`<https://api.example:8443/repositories/1/pulls?page=2>; rel="next", <https://api.example:8443/x?page=9>; rel="last"`},
			"https://api.example:8443/repositories/1/pulls?page=2"},
		{[]string{`<https://api.example:8443/x?page=9>; rel="last", </y?page=2>; rel="next"`}, "https://api.example:8443/y?page=2"},
		{[]string{`<?page=2>;rel=next`}, "https://api.example:8443/repos/o/r/pulls?page=2"},
		{[]string{`</a>; rel="prev"`, `</b>; rel="next"`}, "https://api.example:8443/b"},
		{[]string{`</a,b;c>; title="x, y; rel=\"no\"" ; REL="prev Next"`}, "https://api.example:8443/a,b;c"},
		{[]string{`</a>; rel="last"`}, ""}, {[]string{`</a>; rel="next-archive"`}, ""}, {[]string{`</a>`}, ""}, {[]string{`nonsense`}, ""},
		{[]string{`</a`}, ""}, {[]string{``}, ""}, {[]string{`,,,`}, ""},
		{[]string{`<https://evil.example/x>; rel="next"`}, "!"}, {[]string{`<http://api.example:8443/x>; rel="next"`}, "!"},
		{[]string{`<//evil.example/x>; rel="next"`}, "!"}, {[]string{`<https://api.example/x>; rel="next"`}, "!"},
		{[]string{`<https://u:p@api.example:8443/x>; rel="next"`}, "!"}, {[]string{`<%zz>; rel="next"`}, "!"}, {[]string{`<javascript:x>; rel="next"`}, "!"},
	} {
		u, _ := url.Parse(at)
		next, err := nextPage(u, http.Header{"Link": test.links})
		got := ""
		switch {
		case err != nil:
			got = "!"
		case next != nil:
			got = next.String()
		}
		if got != test.want {
			t.Errorf("%q: %q (%v), want %q", test.links, got, err, test.want)
		}
	}
}

// FuzzNextPage: no header leads to another host, or hangs.
func FuzzNextPage(f *testing.F) {
	for _, s := range []string{`</a>; rel="next"`, `<//evil/x>; rel=next`, `<`, `<>;rel="next`, `<\\evil\x>; rel=next`, `<a>;"\`} {
		f.Add(s)
	}
	u, _ := url.Parse("https://api.example/x")
	f.Fuzz(func(t *testing.T, link string) {
		next, err := nextPage(u, http.Header{"Link": {link}})
		if err == nil && next != nil && (next.Host != "api.example" || next.Scheme != "https" || next.User != nil) {
			t.Fatalf("%q leads to %q", link, next)
		}
	})
}
