package scan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas/scan"
)

func compile(t testing.TB, pointers ...string) *scan.Set {
	t.Helper()
	set, err := scan.Compile(pointers...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestScan(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body, pointer string
		kind                scan.Kind
		text                string
	}{
		{"string", `{"a":"x"}`, "/a", scan.String, "x"},
		{"nested", ` { "b" : 1 , "a" : { "c" : [ 1 , {"d":"x"} ] } } `, "/a/c/1/d", scan.String, "x"},
		{"exact number", `{"a":12345678901234567890123.50e+07}`, "/a", scan.Number, "12345678901234567890123.50e+07"},
		{"negative zero", `{"a":-0}`, "/a", scan.Number, "-0"},
		{"true", `{"a":true}`, "/a", scan.Bool, "true"},
		{"null", `{"a":null}`, "/a", scan.Null, "null"},
		{"object", `{"a":{"b":[1]}}`, "/a", scan.Object, `{"b":[1]}`},
		{"array", `{"a":[1, 2]}`, "/a", scan.Array, `[1, 2]`},
		{"absent", `{"a":1}`, "/b", scan.Absent, ""},
		{"case matters", `{"A":1}`, "/a", scan.Absent, ""},
		{"through a scalar", `{"a":1}`, "/a/b", scan.Absent, ""},
		{"whole text", ` "x" `, "", scan.String, "x"},
		{"array index as key", `{"a":{"0":"x"}}`, "/a/0", scan.String, "x"},
		{"leading zero is no index", `{"a":["x"]}`, "/a/00", scan.Absent, ""},
		{"escaped key", `{"\u0061":"x"}`, "/a", scan.String, "x"},
		{"pointer escapes", `{"a/b":{"c~d":"x"}}`, "/a~1b/c~0d", scan.String, "x"},
		{"empty key", `{"":"x"}`, "/", scan.String, "x"},
		{"escapes", `{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`, "/a", scan.String, "\"\\/\b\f\n\r\té😀"},
		{"long string", `{"a":"` + strings.Repeat("0123456789é", 50) + `"}`, "/a", scan.String, strings.Repeat("0123456789é", 50)},
		{"duplicate elsewhere", `{"b":1,"b":2,"c":{"a":1,"a":1},"a":"x"}`, "/a", scan.String, "x"},
		{"bad text elsewhere", `{"b":"\ud800","a":"x"}`, "/a", scan.String, "x"},
		{"deep enough", strings.Repeat("[", 127) + `{"a":1}` + strings.Repeat("]", 127), "/a", scan.Absent, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			values, err := compile(t, tt.pointer).Scan([]byte(tt.body), nil)
			if err != nil {
				t.Fatal(err)
			}
			v := values[0]
			if v.Kind != tt.kind || v.Text() != tt.text {
				t.Errorf("%s = %s %q, want %s %q", tt.pointer, v.Kind, v.Text(), tt.kind, tt.text)
			}
			if got := tt.body[v.Start:v.End]; v.Kind != scan.Absent && got != string(v.Raw()) {
				t.Errorf("span is %q, raw is %q", got, v.Raw())
			}
		})
	}
}

func TestScanRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		reason     scan.Reason
	}{
		{"empty", ``, scan.Syntax},
		{"trailing garbage", `{"a":{"b":1}} x`, scan.Syntax},
		{"duplicate", `{"a":{"b":1,"b":1}}`, scan.DuplicateKey},
		{"duplicate on the way", `{"a":{},"a":{"b":1}}`, scan.DuplicateKey},
		{"duplicate by escape", `{"a":{"b":1,"\u0062":2}}`, scan.DuplicateKey},
		{"unpaired high", `{"a":{"b":"\ud83d"}}`, scan.BadString},
		{"unpaired low", `{"a":{"b":"\ude00"}}`, scan.BadString},
		{"wrong order", `{"a":{"b":"\ude00\ud83d"}}`, scan.BadString},
		{"high and text", `{"a":{"b":"\ud83dx"}}`, scan.BadString},
		{"not UTF-8", "{\"a\":{\"b\":\"\xff\"}}", scan.BadString},
		{"not UTF-8 beside escape", "{\"a\":{\"b\":\"\\n\xff\"}}", scan.BadString},
		{"too deep", strings.Repeat("[", 129) + strings.Repeat("]", 129), scan.TooDeep},
		{"bomb", strings.Repeat(`{"a":`, 1<<20), scan.TooDeep},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := compile(t, "/a/b").Scan([]byte(tt.body), nil)
			if got := scan.ErrorReason(err); got != tt.reason {
				t.Errorf("error %v, want %s", err, tt.reason)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for _, pointers := range [][]string{{"a"}, {"/a~"}, {"/a~2"}, {"/a", "/a"}} {
		if _, err := scan.Compile(pointers...); err == nil {
			t.Errorf("Compile(%q) accepted", pointers)
		}
	}
}

func TestScanOrderAndReuse(t *testing.T) {
	t.Parallel()
	set := compile(t, "/b", "/a/x", "/a")
	values, err := set.Scan([]byte(`{"a":{"x":1},"b":2}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	texts := func(vs []scan.Value) (out []string) {
		for _, v := range vs {
			out = append(out, v.Text())
		}
		return out
	}
	if diff := cmp.Diff([]string{"2", "1", `{"x":1}`}, texts(values)); diff != "" {
		t.Error(diff)
	}
	values, err = set.Scan([]byte(`{"b":3}`), values)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"3", "", ""}, texts(values)); diff != "" {
		t.Errorf("a reused buffer keeps old values: %s", diff)
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{ // first what is no JSON
		` `, `{}{}`, "\ufeff\ufeff{}", "\ufeff{}", `{"a":1,}`, `[1,]`, `{/**/}`, `{'a':1}`, `{a:1}`, `{"a" 1}`, `{"a":1`, `{"a":"x`, `{"a":"\`,
		"{\"b\":\"0123456789\x01\"}", "{\"b\":\"\n\"}", `{"b":"\x41"}`, `{"b":"\u12"}`, `{"b":01}`, `{"b":+1}`, `{"b":-}`, `{"b":1.}`, `{"b":1e}`,
		`{"b":NaN}`, `{"b":truE}`, "{\f}",
		`{"a":{"b":"x"}}`, `[1,-0.5e-7,"\ud83d\ude00"]`, `{"a":{"b":"\ud83d"}}`, `{"a":1,"a":2}`, "{\"a\":{\"b\":\"\xff\"}}",
		`"\u12"`, ` null `, `{"0":[true,false]}`, `{"a":[[[[]]]],"":{}}`, `1e400`, "\"0123456\x1f\"", `{"\u0061":{"b":10000000000000000000001}}`,
	} {
		f.Add([]byte(s))
	}
	skip, read := compile(f), compile(f, "/a/b", "", "/0/1", "/a")
	f.Fuzz(func(t *testing.T, body []byte) {
		_, err := skip.Scan(body, nil)
		reason := scan.ErrorReason(err)
		if valid := json.Valid(bytes.TrimPrefix(body, []byte("\ufeff"))); reason != scan.TooDeep && valid != (err == nil) {
			t.Fatalf("encoding/json says valid=%t, scan says %v", valid, err)
		}
		values, err := read.Scan(body, nil)
		if reason == scan.Syntax && err == nil {
			t.Fatal("reading accepts what skipping refuses")
		}
		if err != nil {
			if r := scan.ErrorReason(err); r == "" {
				t.Fatalf("error without a reason: %v", err)
			}
			return
		}
		var want any
		d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\ufeff"))))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		compare(t, values[1], want)
		compare(t, values[0], at(at(want, "a"), "b"))
		compare(t, values[3], at(want, "a"))
	})
}

type absent struct{}

func at(v any, key string) any {
	m, ok := v.(map[string]any)
	if !ok {
		return absent{}
	}
	if v, ok := m[key]; ok {
		return v
	}
	return absent{}
}

func compare(t *testing.T, got scan.Value, want any) {
	t.Helper()
	kind, text := scan.Absent, ""
	switch w := want.(type) {
	case absent:
	case nil:
		kind, text = scan.Null, "null"
	case bool:
		kind, text = scan.Bool, fmt.Sprint(w)
	case json.Number:
		kind, text = scan.Number, w.String()
	case string:
		kind, text = scan.String, w
	case []any:
		kind, text = scan.Array, got.Text()
	case map[string]any:
		kind, text = scan.Object, got.Text()
	}
	if got.Kind != kind || got.Text() != text {
		t.Fatalf("scan says %s %q, encoding/json says %s %q", got.Kind, got.Text(), kind, text)
	}
}

func benchmarkBody(b *testing.B) []byte {
	b.Helper()
	body, err := os.ReadFile("../../ingest/vectors/payloads/github/pull_request.opened.json")
	if err != nil {
		b.Fatal(err)
	}
	return body
}

func BenchmarkScan(b *testing.B) {
	pretty := benchmarkBody(b)
	var compact bytes.Buffer
	if err := json.Compact(&compact, pretty); err != nil {
		b.Fatal(err)
	}
	for name, body := range map[string][]byte{"pretty": pretty, "compact": compact.Bytes()} {
		set := compile(b, "/action", "/repository/id", "/pull_request/number", "/pull_request/updated_at", "/installation/id")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var buf []scan.Value
			for b.Loop() {
				buf, _ = set.Scan(body, buf)
			}
		})
		b.Run(name+"/encoding_json", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var into struct {
				Action      string
				Repository  struct{ ID json.Number }
				PullRequest struct {
					Number    json.Number
					UpdatedAt string `json:"updated_at"`
				} `json:"pull_request"`
			}
			for b.Loop() {
				if err := json.Unmarshal(body, &into); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestLoose: what only loose pointers read refuses no text; what another pointer reads as well does.
func TestLoose(t *testing.T) {
	t.Parallel()
	set, err := scan.CompileLoose([]string{"/a/n", "/a/title", "/sender/id"}, func(i int) bool { return i > 0 })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body string
		want [3]string
		err  scan.Reason
	}{
		{`{"a":{"n":1,"title":"t"},"sender":{"id":7}}`, [3]string{"1", "t", "7"}, ""},
		{`{"a":{"n":1,"title":"\ud800"},"sender":{"id":"\ud800"}}`, [3]string{"1", "", ""}, ""},
		{`{"a":{"n":1,"title":"x","title":"y"},"sender":{"id":1},"sender":{"id":2}}`, [3]string{"1", "y", "2"}, ""},
		{`{"a":{"n":"\ud800"}}`, [3]string{}, scan.BadString},
		{`{"a":{"n":1},"a":{"n":2}}`, [3]string{}, scan.DuplicateKey},
		{`{"sender":{"id":}}`, [3]string{}, scan.Syntax},
	} {
		values, err := set.Scan([]byte(c.body), nil)
		if scan.ErrorReason(err) != c.err {
			t.Errorf("%s: %v, want %q", c.body, err, c.err)
			continue
		}
		var got [3]string
		for i, v := range values {
			got[i] = v.Text()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.body, got, c.want)
		}
	}
}

func TestScanLazy(t *testing.T) {
	t.Parallel()
	set, err := scan.CompileLazy("", "/a", "/a/n", "/b", "/none")
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"b":"\ud800","a":{"n":1,"n":2,"x":1,"x":1},"c":"\udc00","c":1}`
	v, err := set.Scan([]byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []scan.Kind{scan.Object, scan.Object, scan.Twice, scan.String, scan.Absent} {
		if v[i].Kind != want {
			t.Errorf("%d: %s, want %s", i, v[i].Kind, want)
		}
	}
	if text, ok := v[3].Content(); ok || v[2].Start != strings.Index(body, "2") {
		t.Errorf("a bad text is %q; what stands twice is at %d", text, v[2].Start)
	}
	if _, err := set.Scan([]byte(`{"c":[1,]}`), nil); scan.ErrorReason(err) != scan.Syntax {
		t.Errorf("a text of bad form: %v", err)
	}
}
