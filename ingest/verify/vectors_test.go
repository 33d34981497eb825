package verify_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

type vector struct {
	ID, Provider, Scheme string
	Params               json.RawMessage
	Options              json.RawMessage
	Keys                 []struct{ Format, Value string }
	Request              struct {
		Method, URL  string
		Headers      map[string]string
		BodyEncoding string `json:"body_encoding"`
		Body         json.RawMessage
	}
	Now        *float64
	ToleranceS *float64 `json:"tolerance_s"`
	Expect     struct {
		Valid  bool
		Reason verify.Reason
	}
}

func loadVectors(t testing.TB) []vector {
	t.Helper()
	raw, err := os.ReadFile("../vectors/public.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Signatures []vector }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Signatures
}

// TestVectors runs every published case of a scheme that exists; the whole runner is cmd/internal/vectors.
func TestVectors(t *testing.T) {
	t.Parallel()
	ran := 0
	for _, v := range loadVectors(t) {
		var p verify.Params
		for _, raw := range []json.RawMessage{v.Params, v.Options} {
			if len(raw) > 0 {
				if err := json.Unmarshal(raw, &p); err != nil {
					t.Fatal(v.ID, err)
				}
			}
		}
		p.Scheme = v.Scheme
		if !known(v.Scheme) {
			continue
		}
		ran++
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			err := v.run(t, p)
			refusal, refused := errors.AsType[*verify.Error](err)
			switch {
			case v.Expect.Valid && err != nil:
				t.Errorf("refused: %v", err)
			case !v.Expect.Valid && !refused:
				t.Errorf("want %s, got %v", v.Expect.Reason, err)
			case !v.Expect.Valid && refusal.Reason != v.Expect.Reason && (wrong[refusal.Reason] == 0 || wrong[refusal.Reason] != wrong[v.Expect.Reason]):
				t.Errorf("want %s, got %v", v.Expect.Reason, err)
			}
		})
	}
	if ran < 95 {
		t.Errorf("only %d vectors ran", ran)
	}
}

// wrong are reasons of which a case may have either: which one it gets depends on whether its form or its value is looked at first.
var wrong = map[verify.Reason]int{verify.Malformed: 1, verify.Mismatch: 1}

func known(scheme string) bool {
	return slices.Contains(verify.Schemes(), scheme)
}

func (v vector) run(t *testing.T, p verify.Params) error {
	t.Helper()
	if v.ToleranceS != nil && p.TimestampHeader+p.TimestampField+p.TimestampPointer != "" || v.Scheme == verify.SchemePaddle {
		p.Tolerance = time.Duration(*v.ToleranceS * float64(time.Second))
	}
	var secrets []schemas.Secret
	for _, k := range v.Keys {
		if k.Format == "hex" {
			p.KeyEncoding = "hex"
		}
		secrets = append(secrets, schemas.NewSecret(k.Value))
	}
	now := time.Unix(1<<31, 0)
	if v.Now != nil {
		now = time.UnixMilli(int64(*v.Now * 1000))
	} else if p.Stamped() {
		p.Tolerance = math.MaxInt64 // freshness is not tested
	}
	if v.Scheme == verify.SchemeRFC9421 {
		p.Components, p.KeyEncoding = "date", "base64" // the cases of the RFC cover no body
	}
	s, err := verify.New(p, secrets)
	if err != nil {
		return err
	}
	return s.Verify(v.request(t), now)
}

func (v vector) request(t testing.TB) *verify.Request {
	t.Helper()
	r := &verify.Request{Method: v.Request.Method, URL: v.Request.URL, Header: http.Header{}}
	_, r.Query, _ = strings.Cut(v.Request.URL, "?")
	for name, value := range v.Request.Headers {
		r.Header.Add(name, value)
	}
	var text string
	var repeat struct {
		Unit  string
		Count int
	}
	var err error
	switch v.Request.BodyEncoding {
	case "repeat":
		err = json.Unmarshal(v.Request.Body, &repeat)
		text = strings.Repeat(repeat.Unit, repeat.Count)
	default:
		err = json.Unmarshal(v.Request.Body, &text)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Body = []byte(text)
	if v.Request.BodyEncoding == "file" {
		if r.Body, err = os.ReadFile("../vectors/" + text); err != nil {
			t.Fatal(err)
		}
	}
	if v.Request.BodyEncoding == "base64" {
		if r.Body, err = base64.StdEncoding.DecodeString(text); err != nil {
			t.Fatal(err)
		}
	}
	return r
}
