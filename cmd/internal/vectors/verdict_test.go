package vectors

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

func TestJudgeOfARefusal(t *testing.T) {
	t.Parallel()
	refused := func(r verify.Reason) error { return &verify.Error{Reason: r} }
	tests := []struct {
		valid bool
		want  verify.Reason
		got   error
		ok    bool
	}{
		{true, "", nil, true},
		{true, "", refused(verify.Mismatch), false},
		{false, verify.Mismatch, nil, false},
		{false, verify.Mismatch, refused(verify.Mismatch), true},
		{false, verify.Malformed, refused(verify.Mismatch), true}, // form or value: whichever is looked at first
		{false, verify.Mismatch, refused(verify.Malformed), true},
		{false, verify.TooOld, refused(verify.TooNew), false},
		{false, verify.TooOld, refused(verify.Mismatch), false},
		{false, verify.MissingHeader, refused(verify.Malformed), false},
		{false, verify.BadKey, errors.New("no such scheme"), false},
	}
	for _, tt := range tests {
		var c signatureCase
		c.Expect.Valid, c.Expect.Reason = tt.valid, tt.want
		if err := c.compare(tt.got); (err == nil) != tt.ok {
			t.Errorf("want %q, got %v: compared as %v", tt.want, tt.got, err)
		}
	}
}

func TestJudgeOfAnAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body, contains, json, contentType string
		ok                                      bool
	}{
		{"as wanted", `{"a": 1}`, "a", `{"a":1}`, "text/plain or application/json", true},
		{"no body wanted", `{}`, "", "", "application/json", true},
		{"other content type", `{}`, "", "", "text/plain", false},
		{"other text", `{}`, "challenge", "", "application/json", false},
		{"other JSON", `{"a":2}`, "", `{"a":1}`, "application/json", false},
		{"no JSON", `a`, "", `{"a":1}`, "application/json", false},
	}
	for _, tt := range tests {
		var c challengeCase
		c.Expect.Status, c.Expect.ContentType, c.Expect.BodyContains = 200, tt.contentType, tt.contains
		if tt.json != "" {
			c.Expect.BodyJSON = json.RawMessage(tt.json)
		}
		err := c.compare(&provider.Answer{Status: 200, ContentType: "application/json", Body: []byte(tt.body)})
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestContentTypeOfAnAnswer: the one that is wanted, or one of several; a part of one is none, and nothing is none of them.
func TestContentTypeOfAnAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want, got string
		ok        bool
	}{
		{"text/plain or application/json", "application/json", true},
		{"", "application/json", true},
		{"application/json", "", false},
		{"text/plain or application/json", "plain", false},
	} {
		var c challengeCase
		c.Expect.Status, c.Expect.ContentType = 200, tt.want
		if err := c.compare(&provider.Answer{Status: 200, ContentType: tt.got}); (err == nil) != tt.ok {
			t.Errorf("want %q, got %q: %v", tt.want, tt.got, err)
		}
	}
}

// TestChallengeMustBeAuthentic runs Slack's handshake with a wrong signature: it fails, unless 401 is what is wanted.
func TestChallengeMustBeAuthentic(t *testing.T) {
	t.Parallel()
	c := challengeCase{Provider: "slack", Keys: []key{{"utf8", "s"}}, Request: request{Method: "POST", Body: json.RawMessage(`"{}"`)}}
	c.Expect.Status = 200
	if err := c.run(""); err == nil {
		t.Error("an unsigned handshake passes")
	}
	c.Expect.Status = 401
	if err := c.run(""); err != nil {
		t.Errorf("the refusal that was wanted: %v", err)
	}
	c.Keys = nil
	if err := c.run(""); err == nil {
		t.Error("a source without a secret passes")
	}
}

func TestVersionValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"1677834420": 1677834420e9, "1784068800000": 1784068800e9, "1515449522000016": 1515449522000016e3,
		"1360782804.083113": 1360782804083113e3, "2019-05-15T15:20:18Z": 1557933618e9} {
		if got, err := versionValue(schemas.Timestamp, text); err != nil || got != want {
			t.Errorf("%s: %d %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "12"} {
		if _, err := versionValue(schemas.Timestamp, text); err == nil {
			t.Errorf("%q is a time", text)
		}
	}
	if got, err := versionValue(schemas.Sequence, "12"); err != nil || got != 12 {
		t.Errorf("counter: %d %v", got, err)
	}
}
