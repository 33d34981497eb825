package vectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/forebay-io/forebay/ingest/provider"
)

type challengeCase struct {
	ID, Provider string
	Keys         []key
	Request      request
	Now          *float64
	Expect       struct {
		Status       int
		ContentType  string          `json:"content_type"`
		BodyContains string          `json:"body_contains"`
		BodyJSON     json.RawMessage `json:"body_json"`
	} `json:"expect_response"`
}

// run asks the provider's preset for the answer to an authentic handshake.
func (c challengeCase) run(dir string) error {
	if _, ok := provider.Lookup(c.Provider); !ok {
		return skip{"no preset " + c.Provider}
	}
	secrets, err := secretsOf(c.Keys)
	if err != nil {
		return err
	}
	src, err := provider.Compile(provider.Config{Team: "vectors", Name: "challenge", Preset: c.Provider, Secrets: secrets})
	if err != nil {
		return err
	}
	req, err := c.Request.build(dir)
	if err != nil {
		return err
	}
	if err := src.Verifier.Verify(req, clock(c.Now)); err != nil {
		if c.Expect.Status == 401 {
			return nil
		}
		return fmt.Errorf("refused: %w", err)
	}
	answer, ok := src.Challenge(req)
	if !ok {
		return errors.New("was not taken for a handshake")
	}
	return c.judge(answer)
}

func (c challengeCase) judge(a *provider.Answer) error {
	switch {
	case a.Status != c.Expect.Status:
		return fmt.Errorf("want status %d, got %d", c.Expect.Status, a.Status)
	case !strings.Contains(c.Expect.ContentType, a.ContentType):
		return fmt.Errorf("want content type %s, got %s", c.Expect.ContentType, a.ContentType)
	case !bytes.Contains(a.Body, []byte(c.Expect.BodyContains)):
		return fmt.Errorf("want a body with %q", c.Expect.BodyContains)
	case c.Expect.BodyJSON == nil:
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
