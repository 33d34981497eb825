package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"mime/quotedprintable"
	"net/url"
	"strings"
	"testing"
)

// awkward has what every encoding changes.
const awkward = `p"s s/w\rd &k=1+é😀%<tab	>`

func quoted(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[1 : len(b)-1])
}

// ascii moves the letters between two by so many places.
func ascii(s string, from, to byte, by int) string {
	b := []byte(s)
	for i := range b {
		if from <= b[i] && b[i] <= to {
			b[i] = byte(int(b[i]) + by)
		}
	}
	return string(b)
}

// TestEncodedSecrets: a destination echoes what it was sent as JSON, in a URL, or as the header that it came in.
func TestEncodedSecrets(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{hush, awkward, "sixsix"} {
		r := New(secret)
		all := func(format string) string {
			var b strings.Builder
			for i := range len(secret) {
				fmt.Fprintf(&b, format, secret[i])
			}
			return b.String()
		}
		units := ""
		for _, c := range quoted(t, secret) {
			if c < 128 && c != '\\' && !strings.Contains(quoted(t, secret), `\`) {
				units += fmt.Sprintf(`\u%04x`, c)
			}
		}
		entities := ""
		for i, c := range secret {
			entities += fmt.Sprintf([]string{"&#%d;", "&#x%X;", "&#X%06x;"}[i%3], c)
		}
		var wrapped strings.Builder
		q := quotedprintable.NewWriter(&wrapped)
		if _, err := q.Write([]byte(secret)); err != nil || q.Close() != nil {
			t.Fatal(err)
		}
		printable := wrapped.String()
		encoded := map[string]string{
			"as it is": secret, "JSON": quoted(t, secret), "JSON in JSON": quoted(t, quoted(t, secret)), "slashes escaped": strings.ReplaceAll(quoted(t, secret), "/", `\/`),
			"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "query, lower case": strings.ToLower(all("%%%02X")), "every byte": all("%%%02X"),
			"query in query": url.QueryEscape(url.QueryEscape(secret)), "query in JSON": quoted(t, url.QueryEscape(secret)), "JSON in query": url.QueryEscape(quoted(t, secret)),
			"HTML": html.EscapeString(secret), "HTML in JSON": quoted(t, html.EscapeString(secret)), "HTML twice": html.EscapeString(html.EscapeString(secret)), "every byte in HTML": entities, "HTML in a query": url.QueryEscape(html.EscapeString(secret)),
			"hex": hex.EncodeToString([]byte(secret)), "hex, upper case": strings.ToUpper(hex.EncodeToString([]byte(secret))), "hex in JSON": quoted(t, hex.EncodeToString([]byte(secret))),
			"upper case": ascii(secret, 'a', 'z', -32), "lower case": ascii(secret, 'A', 'Z', 32), "upper case, in a query": url.QueryEscape(ascii(secret, 'a', 'z', -32)),
			"quoted-printable": printable, "quoted-printable, every byte": all("=%02X"), "broken lines": strings.ReplaceAll(all("=%02X"), "=", "=\r\n=")[3:],
			"every character in JSON": units, "Go": fmt.Sprintf("%q", secret), "Go, ASCII": fmt.Sprintf("%+q", secret),
		}
		for _, before := range []string{"", "a", "ab", "user:"} {
			for _, behind := range []string{"", "z", "zz", ":more of it"} {
				what := fmt.Sprintf("base64 between %q and %q", before, behind)
				encoded[what] = base64.StdEncoding.EncodeToString([]byte(before + secret + behind))
				encoded[what+", raw, of URLs"] = base64.RawURLEncoding.EncodeToString([]byte(before + secret + behind))
				encoded[what+", in a query"] = url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(before + secret + behind)))
			}
		}
		for what, text := range encoded {
			if text == "" {
				continue
			}
			got := r.Text("said: " + text + " (whole)")
			if want := "said: <redacted> (whole)"; got != want && !(strings.HasPrefix(what, "Go") && got == `said: "<redacted>" (whole)`) {
				t.Errorf("%q, %s, is left as %q", secret, what, got)
			}
		}
	}
}

// TestInnocentTextsStay: what only looks encoded, and texts near a secret, are kept as they came.
func TestInnocentTextsStay(t *testing.T) {
	t.Parallel()
	r := New(hush, "sixsix", "pass phrase+1")
	for _, text := range []string{
		"", "%", `\`, "100% of it", `\u12`, `C:\new\x`, "%zz%4", "hush-hush", "aHVzaC1odXN", strings.Repeat(`\\`, 5000), `{"a":"b\u00e9"}`,
		"a&b;c", "&", "&amp", "&#;", "a=b&c=d", "=", "=\r\n", "x=4", "&nosuchname;", "7369787369", `<p class="x">&lt;b&gt;</p>`,
		"pass phrase 1", "pass+phrase 1", "pass++phrase+1", "pass%20phrase%201", "1+1 is two",
	} {
		if got := r.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	r := Named(map[string]string{hush: "${env:A}", hush + "-2": "${env:B}", "short": "${env:C}"})
	if got, want := r.Text("x "+hush+"-2 and "+hush+" short"), "x ${env:B} and ${env:A} short"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestURLsShowNoToken: Slack, Discord and Telegram have theirs in the path.
func TestURLsShowNoToken(t *testing.T) {
	t.Parallel()
	for text, tokens := range map[string][]string{
		"https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX": {"T00000000", "B00000000", "XXXXXXXXXXXXXXXXXXXXXXXX"},
		"https://api.telegram.org/bot123456:AAbbCCddEEffGG/sendMessage?chat=123456789":  {"bot123456:AAbbCCddEEffGG", "123456789"},
		"postgres://u:pass-word@db.example/x?sslmode=require":                           {"pass-word"},
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		r := New(URL(u)...)
		got := r.Text("Post " + u.String() + ": EOF")
		for _, token := range tokens {
			if strings.Contains(got, token) {
				t.Errorf("%s is left in %s", token, got)
			}
		}
		if !strings.Contains(got, u.Hostname()) {
			t.Errorf("the host is gone: %s", got)
		}
	}
}

func FuzzBytes(f *testing.F) {
	f.Add([]byte(`a%68ush-hush-hush\u0068`), hush)
	f.Fuzz(func(t *testing.T, b []byte, secret string) {
		for rest := range strings.SplitSeq(string(New(secret).Bytes(b)), redacted) {
			if len(secret) >= minSecret && strings.Contains(rest, secret) {
				t.Errorf("%q is left in %q", secret, rest)
			}
		}
	})
}

func BenchmarkAnswer(b *testing.B) {
	var secrets []string
	for i := range 20 {
		secrets = append(secrets, fmt.Sprintf("Bearer secret-number-%d", i))
	}
	r := New(secrets...)
	body := []byte(strings.Repeat(`{"ok":true,"text":"a \"quoted\" word"}`, 110))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		r.Bytes(body)
	}
}
