package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// asDescribed asks a process everything that its own description says can be asked with GET, and holds the answers, which are no doubles',
// to what that says of them. names fill in the paths; what has other names, and what measures for seconds, is left out.
func asDescribed(t *testing.T, client *http.Client, base, token string, names map[string]string) {
	t.Helper()
	ask := func(path string) (*http.Response, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, body
	}
	_, text := ask("/v1/openapi.yaml")
	var described map[string]any
	if err := yaml.Unmarshal(text, &described); err != nil {
		t.Fatal(err)
	}
	compiler := schemasOf(t, described)
	asked := 0
	for path, item := range described["paths"].(map[string]any) {
		filled := path
		for name, value := range names {
			filled = strings.ReplaceAll(filled, "{"+name+"}", url.PathEscape(value))
		}
		if item.(map[string]any)["get"] == nil || strings.Contains(filled, "{") || path == "/v1/destinations/{destination}" {
			continue
		}
		resp, body := ask(filled)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s %s", filled, resp.Status, body)
			continue
		}
		if resp.Header.Get("Content-Type") != "application/json" {
			continue
		}
		at := "#/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path) + "/get/responses/200/content/application~1json/schema"
		schema, err := compiler.Compile("https://forebay.invalid/openapi" + at)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err == nil {
			err = schema.Validate(value)
		}
		if asked++; err != nil {
			t.Errorf("GET %s is not as described: %v\n%.2000s", filled, err, body)
		}
	}
	if asked < 20 {
		t.Errorf("%d answers were held to the description", asked)
	}
}

// schemasOf returns a compiler that finds the schemas in a description.
func schemasOf(t *testing.T, described map[string]any) *jsonschema.Compiler {
	t.Helper()
	text, err := json.Marshal(described)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("https://forebay.invalid/openapi", tree); err != nil {
		t.Fatal(err)
	}
	return c
}
