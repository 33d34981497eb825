package vectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// challengeCase is a provider's handshake and the answer that it must get.
type challengeCase struct {
	ID, Provider string
	Keys         []key
	Request      request
	Now          *float64
	Expect       struct {
		Status       int
		Headers      map[string]string // see [like]
		ContentType  string            `json:"content_type"` // several have " or " between them; empty: any
		BodyContains string            `json:"body_contains"`
		BodyJSON     json.RawMessage   `json:"body_json"`
	} `json:"expect_response"`
}

// run verifies the request by the provider's preset, and compares the preset's answer to the handshake. Where 401 is expected, the
// request must not be authentic.
func (c challengeCase) run(dir string) error {
	info, ok := provider.Lookup(presetOf(c.Provider))
	if !ok {
		return skip{"no preset " + c.Provider}
	}
	secrets, err := secretsOf(c.Keys, info.Scheme)
	if err != nil {
		return err
	}
	if len(secrets) == 0 { // the file has an answer only
		secrets = []schemas.Secret{verify.ExampleSecret(info.Scheme)}
	}
	cfg := provider.Config{Team: "vectors", Name: "challenge", Preset: info.Name, Secrets: secrets}
	if c.Now == nil && info.Verify.Stamped() {
		cfg.Verify = &verify.Params{Tolerance: math.MaxInt64} // freshness is not tested
	}
	src, err := provider.Compile(cfg)
	if err != nil {
		return err
	}
	req, err := c.Request.build(dir)
	if err != nil {
		return err
	}
	verified, asks := src.Asks(req.Method)
	if req.Method != http.MethodPost && !asks {
		return fmt.Errorf("%s is not answered", req.Method)
	}
	if len(c.Keys) == 0 {
		err = src.Sign(req, clock(c.Now))
	}
	if err == nil && (verified || !asks) {
		err = src.Verifier.Verify(req, clock(c.Now))
	}
	switch {
	case err != nil && c.Expect.Status == 401:
		return nil
	case err != nil:
		return fmt.Errorf("refused: %w", err)
	}
	answer, ok := src.Challenge(req)
	if !ok {
		return errors.New("was not taken for a handshake")
	}
	return c.compare(answer)
}

// presetOf returns the name of a provider's preset. The files call two of them otherwise.
func presetOf(provider string) string {
	switch provider {
	case "aws-sns":
		return "sns"
	case "cloudevents-webhook":
		return "cloudevents"
	}
	return provider
}

// like reports whether a header's value is what the file describes: "contains TEXT", or several with " or " between them, one of which may be
// "positive integer".
func like(want, got string) bool {
	if text, ok := strings.CutPrefix(want, "contains "); ok {
		return strings.Contains(got, text)
	}
	for one := range strings.SplitSeq(want, " or ") {
		if n, err := strconv.Atoi(got); got == one || one == "positive integer" && err == nil && n > 0 {
			return true
		}
	}
	return false
}

// compare returns how the answer differs from the one expected; nil if it does not.
func (c challengeCase) compare(a *provider.Answer) error {
	if a.Status != c.Expect.Status {
		return fmt.Errorf("want status %d, got %d", c.Expect.Status, a.Status)
	}
	if types := strings.Split(c.Expect.ContentType, " or "); c.Expect.ContentType != "" && !slices.Contains(types, a.ContentType) {
		return fmt.Errorf("want content type %s, got %q", c.Expect.ContentType, a.ContentType)
	}
	if !bytes.Contains(a.Body, []byte(c.Expect.BodyContains)) {
		return fmt.Errorf("want a body with %q", c.Expect.BodyContains)
	}
	for name, want := range c.Expect.Headers {
		if got := a.Header.Get(name); !like(want, got) {
			return fmt.Errorf("want %s %q, got %q", name, want, got)
		}
	}
	if c.Expect.BodyJSON == nil {
		return nil
	}
	var want, got any
	if err := errors.Join(json.Unmarshal(c.Expect.BodyJSON, &want), json.Unmarshal(a.Body, &got)); err != nil {
		return err
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("want body %s, got %s", c.Expect.BodyJSON, a.Body)
	}
	return nil
}
