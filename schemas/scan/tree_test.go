package scan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas/scan"
)

// exact keeps a number's text.
func exact(text []byte) any { return json.Number(text) }

func TestTree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		want       any
	}{
		{"every kind", ` { "a" : [ true , false , null , -0.5e+07 , "x" ] , "b" : { } , "c" : [ ] } `, map[string]any{
			"a": []any{true, false, nil, json.Number("-0.5e+07"), "x"}, "b": map[string]any{}, "c": []any{}}},
		{"exact number", `12345678901234567890123`, json.Number("12345678901234567890123")},
		{"escapes", `{"\u0061\n":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`, map[string]any{"a\n": "\"\\/\b\f\n\r\té😀"}},
		{"one key in two objects", `[{"a":1},{"a":{"a":1}}]`, []any{map[string]any{"a": json.Number("1")},
			map[string]any{"a": map[string]any{"a": json.Number("1")}}}},
		{"keys that differ in case", `{"a":true,"A":false,"":null}`, map[string]any{"a": true, "A": false, "": nil}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := scan.Tree([]byte(tt.body), 100, exact)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTreeRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		reason     scan.Reason
	}{
		{"empty", ``, scan.Syntax}, {"blank", ` `, scan.Syntax}, {"two texts", `{}{}`, scan.Syntax}, {"trailing comma", `{"a":1,}`, scan.Syntax},
		{"trailing comma in array", `[1,]`, scan.Syntax}, {"no colon", `{"a" 1}`, scan.Syntax}, {"no value", `{"a":}`, scan.Syntax},
		{"bare key", `{a:1}`, scan.Syntax}, {"open object", `{"a":1`, scan.Syntax}, {"open array", `[1`, scan.Syntax}, {"open string", `["x`, scan.Syntax},
		{"word", `truE`, scan.Syntax}, {"leading zero", `[01]`, scan.Syntax}, {"bare minus", `-`, scan.Syntax}, {"NaN", `NaN`, scan.Syntax},
		{"duplicate", `{"x":{"b":1,"b":1}}`, scan.DuplicateKey},
		{"duplicate deep inside", `[[{"x":[{"a":1,"b":2,"a":1}]}]]`, scan.DuplicateKey},
		{"duplicate by escape", `{"b":1,"\u0062":2}`, scan.DuplicateKey},
		{"unpaired surrogate", `["\ud83d"]`, scan.BadString}, {"unpaired surrogate in a key", `{"\ude00":1}`, scan.BadString},
		{"not UTF-8", "[\"\xff\"]", scan.BadString}, {"not UTF-8 in a key", "{\"\xff\":1}", scan.BadString},
		{"too deep", strings.Repeat("[", 129) + strings.Repeat("]", 129), scan.TooDeep},
		{"bomb", strings.Repeat(`{"a":`, 1<<20), scan.TooDeep},
		{"too many values", "[" + strings.Repeat("1,", 999) + "1]", scan.TooMany},
		{"too many values in objects", "[" + strings.Repeat(`{"a":1},`, 500) + "{}]", scan.TooMany},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, err := scan.Tree([]byte(tt.body), 1000, exact)
			if got := scan.ErrorReason(err); got != tt.reason || v != nil {
				t.Errorf("%v, error %v, want %s", v, err, tt.reason)
			}
		})
	}
	if _, err := scan.Tree([]byte("["+strings.Repeat("1,", 998)+"1]"), 1000, exact); err != nil {
		t.Errorf("a thousand values, the array counted: %v", err)
	}
}

// FuzzTree: what Tree reads is what encoding/json reads, and it accepts nothing that Scan refuses. It refuses what
// Scan takes only for a duplicate key, a bad string or the number of values.
func FuzzTree(f *testing.F) {
	for _, s := range []string{`{"a":{"b":"x"}}`, `[1,-0.5e-7,"\ud83d\ude00"]`, `{"a":{"b":"\ud83d"}}`, `{"a":1,"a":2}`, "{\"a\":{\"b\":\"\xff\"}}",
		` null `, `{"0":[true,false]}`, `{"a":[[[[]]]],"":{}}`, `1e400`, `{"\u0061":{"b":10000000000000000000001}}`, `[[[],[]],{}]`} {
		f.Add([]byte(s))
	}
	skip, read := compile(f), compile(f, "/a/b", "", "/0/1", "/a")
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := scan.Tree(body, 200, exact)
		_, skipped := skip.Scan(body, nil)
		switch reason := scan.ErrorReason(err); reason {
		case "":
			if err != nil || skipped != nil {
				t.Fatalf("Tree says %v, Scan %v", err, skipped)
			}
		case scan.DuplicateKey, scan.BadString, scan.TooMany:
			return
		default:
			if scan.ErrorReason(skipped) == "" {
				t.Fatalf("Tree says %v of what Scan takes", err)
			}
			return
		}
		if _, err := read.Scan(body, nil); err != nil {
			t.Fatalf("Tree takes what Scan refuses to read: %v", err)
		}
		var want any
		d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\ufeff"))))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Token(); err != io.EOF {
			t.Fatalf("encoding/json finds more: %v", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkTree(b *testing.B) {
	body := benchmarkBody(b)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := scan.Tree(body, 1<<18, exact); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEach(t *testing.T) {
	t.Parallel()
	end := errors.New("enough")
	for _, tt := range []struct {
		name, body string
		want       []string
		err        error
	}{
		{"object", ` { "a" : [1,{"b":2}] , "\u0061":"\ud800" } `, []string{`a=[1,{"b":2}]`, `a="\ud800"`}, nil},
		{"array", `[null, -1.50e1,"x",{}]`, []string{`=null`, `=-1.50e1`, `="x"`, `={}`}, nil},
		{"empty object", ` { } `, nil, nil}, {"empty array", `[]`, nil, nil}, {"number", ` 1 `, nil, nil}, {"text", `"x"`, nil, nil},
		{"as deep as any", "[" + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "]", []string{"=" + strings.Repeat("[", 200) + strings.Repeat("]", 200)}, nil},
		{"visit ends it", `[1,"end",2`, []string{`=1`, `="end"`}, end},
		{"empty", ``, nil, &scan.Error{Reason: scan.Syntax}}, {"two texts", `[1] [2]`, []string{"=1"}, &scan.Error{Reason: scan.Syntax, Offset: 4}},
		{"open array", `[1`, []string{"=1"}, &scan.Error{Reason: scan.Syntax, Offset: 2}}, {"trailing comma", `[1,]`, []string{"=1"}, &scan.Error{Reason: scan.Syntax, Offset: 3}},
		{"no key", `{1:2}`, nil, &scan.Error{Reason: scan.Syntax, Offset: 1}}, {"no value", `{"a":}`, nil, &scan.Error{Reason: scan.Syntax, Offset: 5}},
		{"bad key", `{"\ud800":1}`, nil, &scan.Error{Reason: scan.BadString, Offset: 1}},
		{"deeper", strings.Repeat("[", 10_001), nil, &scan.Error{Reason: scan.TooDeep, Offset: 10_000}},
	} {
		var got []string
		err := scan.Each([]byte(tt.body), func(key string, v scan.Value) error {
			got = append(got, key+"="+string(v.Raw()))
			if text, ok := v.Content(); ok && text == "end" {
				return end
			}
			return nil
		})
		if diff := cmp.Diff(tt.want, got); diff != "" || fmt.Sprint(err) != fmt.Sprint(tt.err) {
			t.Errorf("%s: %v, want %v; visited (-want +got):\n%s", tt.name, err, tt.err, diff)
		}
	}
}

// FuzzEach: what is taken is what encoding/json takes, and the parts are the whole.
func FuzzEach(f *testing.F) {
	for _, s := range []string{`{"a":[1,"x"],"a":null}`, `[1,[2],{"b":"\ud83d\ude00"}]`, ` "x" `, `[1,]`, `{"a"}`, "{\"\xff\":1}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var keys, parts []string
		err := scan.Each(body, func(key string, v scan.Value) error {
			keys, parts = append(keys, key), append(parts, string(v.Raw()))
			return nil
		})
		if valid := json.Valid(bytes.TrimPrefix(body, []byte("\ufeff"))); valid != (err == nil) && scan.ErrorReason(err) != scan.BadString {
			t.Fatalf("valid %v, %v", valid, err)
		}
		var array []json.RawMessage
		if json.Unmarshal(body, &array) == nil && err == nil {
			if len(parts) != len(array) {
				t.Fatalf("%d elements, want %d", len(parts), len(array))
			}
			for i, part := range parts {
				if part != string(array[i]) {
					t.Fatalf("element %d: %s, want %s", i, part, array[i])
				}
			}
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) == nil && err == nil && len(object) > 0 {
			last := map[string]string{}
			for i, key := range keys {
				last[key] = parts[i]
			}
			for key, want := range object {
				if last[key] != string(want) {
					t.Fatalf("member %q: %s, want %s", key, last[key], want)
				}
			}
		}
	})
}
