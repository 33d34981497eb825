package schemas

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// drawWord draws words that often begin each other.
var drawWord = rapid.OneOf(rapid.StringMatching("[ab!+~]{1,4}"), rapid.StringMatching("[!-~]{1,64}"))

func drawVersion(t *rapid.T, kind VersionKind, word bool, name string) Version {
	if word {
		return Version{Kind: Monotonic, Clock: "c", Epoch: rapid.Int64Range(0, MaxEpoch).Draw(t, name+"epoch"),
			Text: drawWord.Draw(t, name+"word"), Sub: rapid.Int32Range(0, MaxSub).Draw(t, name+"sub")}
	}
	low := int64(0)
	if kind == Timestamp {
		low = MinTimestamp.UnixNano()
	}
	return Version{Kind: kind, Clock: "c", Epoch: rapid.Int64Range(0, MaxEpoch).Draw(t, name+"epoch"),
		Value: rapid.Int64Range(low, MaxTimestamp.UnixNano()).Draw(t, name+"value"),
		Sub:   rapid.Int32Range(0, MaxSub).Draw(t, name+"sub")}
}

// Inside one epoch and sign the text sorts as the version does, and reads back.
func TestVersionText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]VersionKind{Sequence, Monotonic, Timestamp}).Draw(t, "kind")
		word := kind == Monotonic && rapid.Bool().Draw(t, "words")
		v, w := drawVersion(t, kind, word, "v"), drawVersion(t, kind, word, "w")
		if rapid.Bool().Draw(t, "near") {
			w.Epoch, w.Value = v.Epoch, v.Value
			if rapid.Bool().Draw(t, "nearer") {
				w.Text = v.Text
			}
		}
		got, err := ParseVersion("c", kind, v.Sortable())
		if err != nil || got != v {
			t.Fatalf("%+v is %q, read as %+v, %v", v, v.Sortable(), got, err)
		}
		if (v.Epoch == 0) != (w.Epoch == 0) {
			return // "e" sorts behind every digit, checked below
		}
		if c := strings.Compare(v.Sortable(), w.Sortable()); c != v.Compare(w) {
			t.Fatalf("%q and %q compare as %d, the versions as %d", v.Sortable(), w.Sortable(), c, v.Compare(w))
		}
	})
	old, restarted := Version{Kind: Sequence, Value: 1 << 62}, Version{Kind: Sequence, Epoch: 1}
	if !(old.Sortable() < restarted.Sortable()) || old.Compare(restarted) >= 0 {
		t.Error("an epoch does not sort behind none")
	}
}

func TestVersionTextForms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		v    Version
		want string
	}{
		{Version{Kind: None}, ""},
		{Version{Kind: Sequence, Value: 42}, "00000000000000000042"},
		{Version{Kind: Monotonic, Value: 1<<63 - 1, Sub: 3}, "09223372036854775807+00003"},
		{Version{Kind: Sequence, Epoch: 7, Value: 1}, "e000007:00000000000000000001"},
		{Version{Kind: Monotonic, Text: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, "=01ARZ3NDEKTSV4RRFFQ69G5FAV"},
		{Version{Kind: Monotonic, Text: "00000000000000000042"}, "=00000000000000000042"}, // not the counter of 20 digits
		{Version{Kind: Monotonic, Epoch: 7, Text: "e1:=a+1", Sub: 3}, "e000007:=e1:=a+1 +00003"},
		{Version{Kind: Timestamp, Value: time.Date(2026, 7, 1, 16, 45, 22, 391_000_000, time.UTC).UnixNano()}, "2026-07-01T16:45:22.391000000Z"},
	} {
		if got := test.v.Sortable(); got != test.want {
			t.Errorf("%+v is %q, want %q", test.v, got, test.want)
		}
		if got, err := ParseVersion("", test.v.Kind, test.want); err != nil || got != test.v {
			t.Errorf("%q read as %+v, %v", test.want, got, err)
		}
	}
}

func TestParseVersionRefuses(t *testing.T) {
	t.Parallel()
	const n = "00000000000000000001"
	for _, test := range []struct {
		kind VersionKind
		text string
	}{
		{"", n}, {"Sequence", n}, {None, n}, {Sequence, ""}, {Sequence, "1"}, {Sequence, "0" + n}, {Sequence, "-0000000000000000001"},
		{Sequence, "+0000000000000000001"}, {Sequence, "0000000000000000000x"}, {Sequence, "99999999999999999999"},
		{Sequence, n + "+1"}, {Sequence, n + "+00000"}, {Sequence, n + "+"}, {Sequence, n + "+000001"}, {Sequence, n + "+00001+00001"},
		{Sequence, "e1:" + n}, {Sequence, "e000000:" + n}, {Sequence, "e000001" + n}, {Sequence, "e:" + n}, {Sequence, " " + n},
		{Timestamp, n}, {Timestamp, "2026-07-01T16:45:22Z"}, {Timestamp, "2026-07-01T16:45:22,391000000Z"},
		{Timestamp, "2026-07-01T16:45:22.391000000+00:00"}, {Timestamp, "2026-02-30T16:45:22.391000000Z"},
		{Timestamp, "1600-01-01T00:00:00.000000000Z"}, {Timestamp, "2300-01-01T00:00:00.000000000Z"},
		{Monotonic, "="}, {Monotonic, "=a "}, {Monotonic, "= a"}, {Monotonic, "=a b"}, {Monotonic, "=a\x00"}, {Monotonic, "=\u00e9"},
		{Monotonic, "=a +00000"}, {Monotonic, "=a +1"}, {Monotonic, "=a +00001 +00001"}, {Monotonic, "= +00001"},
		{Monotonic, "a"}, {Monotonic, "=" + strings.Repeat("a", MaxVersionText+1)}, {Sequence, "=a"}, {Timestamp, "=a"}, {None, "=a"},
	} {
		if v, err := ParseVersion("", test.kind, test.text); err == nil {
			t.Errorf("%s %q read as %+v", test.kind, test.text, v)
		}
	}
}

func TestVersionCompare(t *testing.T) {
	t.Parallel()
	in := []Version{{Value: -1}, {}, {Sub: 1}, {Text: "B"}, {Text: "B", Sub: 1}, {Text: "Ba"}, {Text: "a"}, {Value: 1}, {Value: 1, Sub: 1},
		{Epoch: 1}, {Epoch: 1, Text: "A"}, {Epoch: 1, Value: 5}}
	for i, v := range in {
		for j, w := range in {
			if got := v.Compare(w); got != cmp.Compare(i, j) {
				t.Errorf("%+v and %+v compare as %d", v, w, got)
			}
		}
	}
}

// What a mapping calls a version may change: then the values of before mean nothing beside those of now.
func TestVersionComparable(t *testing.T) {
	t.Parallel()
	counter, word, second := Version{Kind: Monotonic, Value: 5}, Version{Kind: Monotonic, Text: "5"}, Version{Kind: Timestamp, Value: 5}
	for _, test := range []struct {
		v, w Version
		want bool
	}{
		{counter, Version{Kind: Monotonic}, true}, {word, Version{Kind: Monotonic, Text: "a", Sub: 1}, true}, {second, second, true},
		{counter, word, false}, {counter, second, false}, {word, second, false},
	} {
		if test.v.Comparable(test.w) != test.want || test.w.Comparable(test.v) != test.want {
			t.Errorf("%+v and %+v: want %t", test.v, test.w, test.want)
		}
	}
}

func TestEntityKey(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   []string
		want EntityKey
	}{
		{[]string{"186853002", "42"}, "186853002/42"},
		{[]string{"a/b", "c"}, "a%2Fb/c"},
		{[]string{"a", "b/c"}, "a/b%2Fc"},
		{[]string{"", ""}, "/"},
		{[]string{"50%"}, "50%25"},
		{[]string{"ü \n\x00"}, "%C3%BC%20%0A%00"},
		{[]string{"cus_1:x@y~z.-"}, "cus_1:x@y~z.-"},
	} {
		if got := NewEntityKey(test.in...); got != test.want {
			t.Errorf("%q is %q, want %q", test.in, got, test.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "values")
		parts := strings.Split(string(NewEntityKey(in...)), "/")
		for i := range parts {
			var err error
			if parts[i], err = url.PathUnescape(parts[i]); err != nil {
				t.Fatal(err)
			}
		}
		if fmt.Sprintf("%q", parts) != fmt.Sprintf("%q", in) {
			t.Fatalf("%q came back as %q", in, parts)
		}
	})
}

// No two lists of parts make one id by moving a border, and ids never change between releases.
func TestIDs(t *testing.T) {
	t.Parallel()
	if NewEventKey("/a/b", "c") == NewEventKey("/a/bc", "") || NewEventKey("", "x") == NewEventKey("x", "") {
		t.Error("two events share a key")
	}
	seen := map[ActionID]string{}
	for _, p := range [][4]string{{"ab", "c", "d", "e"}, {"a", "bc", "d", "e"}, {"ab", "cd", "", "e"}, {"ab", "c", "de", ""}, {"ab", "c", "", "de"}} {
		for generation := range int32(2) {
			id := NewActionID(p[0], generation, p[1], p[2], p[3])
			name := fmt.Sprint(p, generation)
			if other, ok := seen[id]; ok {
				t.Errorf("%s and %s share %s", name, other, id)
			}
			seen[id] = name
			if !strings.HasPrefix(string(id), "act_") || len(id) != 30 {
				t.Errorf("%s is not act_ and 26 characters", id)
			}
		}
	}
	if got := NewEventKey("/acme/github", "1").String(); got != "b55e3f229ad87b7fa6c202fbd2089306" {
		t.Errorf("the event key of releases before is no more: %s", got)
	}
	if got := NewActionID("acme.triage", 0, "/acme/github", "1", "run"); got != "act_b9dq2bzwzvgbrj6n05r4872478" {
		t.Errorf("the action id of releases before is no more: %s", got)
	}
	if got := HashBody(nil).String(); got != "e3b0c44298fc1c149afbf4c8996fb924" {
		t.Errorf("hash of nothing: %s", got)
	}
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	inner := Errorf(Throttled, "produce", "%w", io.EOF)
	for _, test := range []struct {
		err  error
		want Kind
	}{
		{nil, ""}, {io.EOF, Internal}, {inner, Throttled}, {fmt.Errorf("x: %w", inner), Throttled},
		{&Error{Kind: Unavailable, Err: inner}, Unavailable}, {errors.Join(io.EOF, inner), Throttled},
	} {
		if got := KindOf(test.err); got != test.want {
			t.Errorf("%v is %q, want %q", test.err, got, test.want)
		}
	}
	if !errors.Is(inner, io.EOF) {
		t.Error("the cause is lost")
	}
	for _, test := range []struct {
		err  *Error
		want string
	}{
		{inner, "produce: EOF"}, {&Error{Kind: NotFound}, "not_found"}, {&Error{Kind: NotFound, Op: "look"}, "look: not_found"},
		{&Error{Kind: NotFound, Err: io.EOF}, "EOF"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("text %q, want %q", got, test.want)
		}
	}
	seen := map[Kind]bool{}
	for _, k := range Kinds() {
		seen[k] = true
	}
	if len(seen) != 9 {
		t.Errorf("%d kinds, the list is closed at nine", len(seen))
	}
}

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	const text = "hunter2"
	s := NewSecret(text)
	in := struct {
		S Secret
		P *Secret
		L []Secret
		M map[string]Secret
		u Secret // fmt calls no method here
		p *Secret
	}{s, &s, []Secret{s}, map[string]Secret{"k": s}, s, &s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p"} {
		fmt.Fprintf(&out, verb+verb+verb+"\n", s, &s, in)
		fmt.Fprintf(&out, verb+"\n", fmt.Errorf("wrapped %v: %w", s, io.EOF))
	}
	fmt.Fprintln(&out, s, &s, in)
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("x", "s", s, "p", &s, "in", in, "g", slog.GroupValue(slog.Any("s", s)))
	}
	for _, v := range []any{s, &s, in, map[Secret]int{s: 1}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Error(err)
		}
		out.Write(b)
	}
	for _, v := range []any{s, &s, in} {
		b, err := yaml.Marshal(v)
		if err != nil {
			t.Error(err)
		}
		out.Write(b)
	}
	for _, leak := range []string{text, fmt.Sprintf("%x", text), fmt.Sprintf("%X", text), fmt.Sprint([]byte(text))} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("%q in %s", leak, out.String())
		}
	}
	if s != NewSecret(text) || NewSecret("") != (Secret{}) || s.Reveal() != text || s.IsZero() || !(Secret{}).IsZero() {
		t.Error("the secret itself is wrong")
	}
}
