package delivery

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is written is read as it was, whatever the body and the headers.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"a":"<b>\u0000"}`, "", "\xff\x00", "ü\r\n"} {
		want := File{Source: "acme/orders", Method: "POST", URL: "https://example.com/"}
		want.SetHeader(http.Header{"X-One": {"1"}, "X-Two": {"1", "2"}})
		want.SetContent([]byte(body))
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(bytes.NewReader(text))
		if err != nil || string(got.Content()) != body {
			t.Errorf("%q: %q, %v", body, got.Content(), err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"body":"x","body_base64":"eA=="}`: "leave one out",
		`{"bdoy":"x"}`:                      "unknown field",
		`{"headers":{"a":1}}`:               "cannot unmarshal",
		`[]`:                                "not the JSON of one delivery",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	f, err := Read(strings.NewReader(`{"headers":{"x-one":"1","X-two":["2","3"]}}`))
	if diff := cmp.Diff(http.Header{"X-One": {"1"}, "X-Two": {"2", "3"}}, f.Header()); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
