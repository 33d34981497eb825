// Package vendors holds our check of signatures against the libraries that Stripe, Slack, GitHub, Svix and Standard Webhooks give to receivers. It is a
// module of its own, so that nothing else depends on them: `go test .` in this folder, or make soak.
package vendors

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-github/v75/github"
	"github.com/slack-go/slack"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stripe/stripe-go/v84/webhook"
	svix "github.com/svix/svix-webhooks/go"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

const (
	text  = "a secret that both know"
	whsec = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// vendor is a library, and how ours differs from it on purpose.
type vendor struct {
	preset, bodies, secret string
	prefix                 string // of the headers, where ours takes several
	theirs                 func(header http.Header, body []byte) error
	// stricter are requests that theirs takes and ours refuses, by what ours are about.
	stricter map[string]func(*verify.Error, http.Header) bool
	// plain takes out of a header what ours overlooks and theirs does not: theirs must take what is left.
	plain func(http.Header) http.Header
}

// A request has one value for each header, and a time has one form.
func several(_ *verify.Error, h http.Header) bool {
	for _, values := range h {
		if len(values) > 1 {
			return true
		}
	}
	return false
}

func stampOf(header string) func(*verify.Error, http.Header) bool {
	return func(_ *verify.Error, h http.Header) bool { return h.Get(header) != "" && oddStamp(h.Get(header)) }
}

func oddStamp(text string) bool {
	return !regexp.MustCompile(`^(0|[1-9][0-9]{0,15})$`).MatchString(text)
}

// stripeFields are the values of a field of Stripe's header, as theirs reads it.
func stripeFields(h http.Header, name string) (values []string) {
	for item := range strings.SplitSeq(h.Get("Stripe-Signature"), ",") {
		if n, value, _ := strings.Cut(item, "="); strings.TrimSpace(n) == name {
			values = append(values, value)
		}
	}
	return values
}

// Standard Webhooks' libraries read what stands between the first two commas of a signature, ours all behind the first one.
func secondComma(prefix string) func(*verify.Error, http.Header) bool {
	return func(_ *verify.Error, h http.Header) bool {
		for item := range strings.SplitSeq(h.Get(prefix+"signature"), " ") {
			if strings.Count(item, ",") > 1 {
				return true
			}
		}
		return false
	}
}

// Blanks of any kind stand between signatures for ours.
func blanks(header string) func(http.Header) http.Header {
	return func(h http.Header) http.Header {
		h = h.Clone()
		h.Set(header, strings.Join(strings.Fields(h.Get(header)), " "))
		return h
	}
}

func TestVendors(t *testing.T) {
	t.Parallel()
	for _, v := range []vendor{
		{preset: "stripe", bodies: "stripe", secret: text, theirs: func(h http.Header, body []byte) error {
			return webhook.ValidatePayload(body, h.Get("Stripe-Signature"), text)
		}, stricter: map[string]func(*verify.Error, http.Header) bool{
			"one value": several,
			"one form of the time": func(_ *verify.Error, h http.Header) bool {
				stamps := stripeFields(h, "t")
				return len(stamps) == 1 && oddStamp(stamps[0])
			},
			"one time":                func(_ *verify.Error, h http.Header) bool { return len(stripeFields(h, "t")) > 1 },
			"no time that is to come": func(e *verify.Error, _ http.Header) bool { return e.Reason == verify.TooNew },
		}, plain: func(h http.Header) http.Header { // blanks around a field, and fields that nobody reads, whatever they are
			fields := "t=" + strings.TrimSpace(stripeFields(h, "t")[0])
			for _, signature := range stripeFields(h, "v1") {
				if signature = strings.TrimSpace(signature); !strings.Contains(signature, "=") {
					fields += ",v1=" + signature
				}
			}
			return http.Header{"Stripe-Signature": {fields}}
		}},
		{preset: "slack", bodies: "slack", secret: text, theirs: func(h http.Header, body []byte) error {
			v, err := slack.NewSecretsVerifier(h, text)
			if err != nil {
				return err
			}
			_, err = v.Write(body)
			return errors.Join(err, v.Ensure())
		}, stricter: map[string]func(*verify.Error, http.Header) bool{"one value": several}},
		{preset: "github", bodies: "github", secret: text, theirs: func(h http.Header, body []byte) error {
			r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1/", bytes.NewReader(body))
			if err != nil {
				return err
			}
			r.Header = h
			_, err = github.ValidatePayload(r, []byte(text))
			return err
		}, stricter: map[string]func(*verify.Error, http.Header) bool{"one value": several}},
		{preset: "standard-webhooks", bodies: "openai", secret: whsec, theirs: func(h http.Header, body []byte) error {
			w, err := standardwebhooks.NewWebhook(whsec)
			if err != nil {
				return err
			}
			return w.Verify(body, h)
		}, stricter: map[string]func(*verify.Error, http.Header) bool{"one value": several, "one form of the time": stampOf("webhook-timestamp"),
			"nothing behind a signature": secondComma("webhook-")}, plain: blanks("webhook-signature")},
		{preset: "svix", prefix: "svix-", bodies: "svix", secret: whsec, theirs: func(h http.Header, body []byte) error {
			w, err := svix.NewWebhook(whsec)
			if err != nil {
				return err
			}
			return w.Verify(body, h)
		}, stricter: map[string]func(*verify.Error, http.Header) bool{"one value": several, "one form of the time": stampOf("svix-timestamp"),
			"nothing behind a signature": secondComma("svix-")}, plain: blanks("svix-signature")},
	} {
		t.Run(v.preset, func(t *testing.T) {
			t.Parallel()
			v.run(t)
		})
	}
}

func (v *vendor) run(t *testing.T) {
	info, ok := provider.Lookup(v.preset)
	if !ok {
		t.Fatal("no such preset")
	}
	info.Verify.HeaderPrefix = v.prefix
	ours, err := verify.New(info.Verify, []schemas.Secret{schemas.NewSecret(v.secret)})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../../../ingest/vectors/payloads/" + v.bodies + "/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	seen := map[string]int{}
	random := rand.New(rand.NewPCG(1, 2)) // the same in every run
	for n, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, off := range []time.Duration{0, -270 * time.Second, 270 * time.Second, -330 * time.Second, 330 * time.Second, -24 * time.Hour, 24 * time.Hour} {
			r := &verify.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
			if err := ours.Sign(r, time.Now().Add(off)); err != nil {
				t.Fatal(err)
			}
			v.compare(t, ours, seen, r.Header, body)
			if off == 0 {
				for _, m := range mutations(r.Header, body, random, n == 0) {
					v.compare(t, ours, seen, m.header, m.body)
				}
			}
		}
	}
	for _, each := range append(slices.Collect(maps.Keys(v.stricter)), "both take it", "both refuse it") {
		if seen[each] == 0 {
			t.Errorf("of no request: %s", each)
		}
	}
	t.Log(seen)
}

// compare asks both about a request.
func (v *vendor) compare(t *testing.T, ours verify.Scheme, seen map[string]int, header http.Header, body []byte) {
	t.Helper()
	err := ours.Verify(&verify.Request{Method: http.MethodPost, Header: header.Clone(), Body: body}, time.Now())
	their := v.theirs(header, body)
	switch refused, _ := errors.AsType[*verify.Error](err); {
	case err == nil && their == nil:
		seen["both take it"]++
		return
	case err != nil && their != nil:
		seen["both refuse it"]++
		return
	case err == nil && v.plain != nil && v.theirs(v.plain(header), body) == nil:
		seen["only ours takes it, for what nobody reads"]++
		return
	case err != nil:
		for name, holds := range v.stricter {
			if holds(refused, header) {
				seen[name]++
				return
			}
		}
	}
	t.Errorf("ours %v, theirs %v: %q", err, their, header)
}

type mutation struct {
	header http.Header
	body   []byte
}

// bytesOfEachClass are characters that may stand in a header, one of each kind that some scheme treats by itself.
const bytesOfEachClass = "019afgAFGZ ,=.:;+-/_|\"%\t\x80"

// mutations changes each header that has to do with the signature, at each place, by a character of each class, and the body.
func mutations(header http.Header, body []byte, random *rand.Rand, all bool) (out []mutation) {
	with := func(name string, values ...string) {
		h := header.Clone()
		if h[name] = values; len(values) == 0 {
			delete(h, name)
		}
		for i := range values { // as a server reads it
			values[i] = strings.Trim(values[i], " \t")
		}
		out = append(out, mutation{h, body})
	}
	var names []string
	for name, values := range header {
		if name == "Content-Type" {
			continue
		}
		names = append(names, name)
		value := values[0]
		with(name)
		for _, v := range []string{"", value + value, value + "," + value, value + " " + value, value + ", " + value, strings.ToUpper(value), strings.ToLower(value),
			strings.ReplaceAll(value, "=", ""), strings.ReplaceAll(value, ",", ", "), strings.ReplaceAll(value, ",", " ")} {
			with(name, v)
		}
		with(name, value, value)
		with(name, value, "x")
		with(name, "x", value)
		if !all {
			continue
		}
		for i := 0; i <= len(value); i++ {
			for _, c := range []byte(bytesOfEachClass) {
				with(name, value[:i]+string([]byte{c})+value[i:])
				if i < len(value) {
					with(name, value[:i]+string([]byte{c})+value[i+1:])
				}
			}
			with(name, value[:i])
			with(name, value[i:])
			if i < len(value) {
				with(name, value[:i]+value[i+1:])
			}
		}
	}
	slices.Sort(names)
	for range 2000 { // two or three changes at once
		h := header.Clone()
		for range 2 + random.IntN(2) {
			name := names[random.IntN(len(names))]
			value := h.Get(name)
			i := random.IntN(len(value) + 1)
			j := i + random.IntN(min(3, len(value)-i+1))
			c := random.IntN(len(bytesOfEachClass) + 1)
			h[name] = []string{strings.Trim(value[:i]+bytesOfEachClass[c:min(c+1, len(bytesOfEachClass))]+value[j:], " \t")}
		}
		out = append(out, mutation{h, body})
	}
	for range 200 {
		i := random.IntN(len(body))
		one := []byte{byte(random.IntN(256))}
		for _, b := range [][]byte{slices.Concat(body[:i], body[i+1:]), slices.Concat(body[:i], one, body[i:]), slices.Concat(body[:i], one, body[i+1:]), body[:i]} {
			out = append(out, mutation{header, b})
		}
	}
	return append(out, mutation{header, slices.Concat(body, []byte("\n"))}, mutation{header, nil})
}
