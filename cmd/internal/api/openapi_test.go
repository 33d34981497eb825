package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// openAPI is the description, read once.
type openAPI struct {
	tree     map[string]any
	compiler *jsonschema.Compiler
	mu       sync.Mutex // compiling is not safe for concurrent use
}

const describedAt = "https://forebay.invalid/openapi"

// treeOf reads YAML or JSON as the validator has it.
func treeOf(text []byte) (any, error) {
	var read any
	if err := yaml.Unmarshal(text, &read); err != nil {
		return nil, err
	}
	asJSON, err := json.Marshal(read)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
}

var described = sync.OnceValues(func() (*openAPI, error) {
	tree, err := treeOf(description)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.AssertContent()
	return &openAPI{tree: tree.(map[string]any), compiler: c}, c.AddResource(describedAt, tree)
})

func openapi(t *testing.T) *openAPI {
	t.Helper()
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// at returns what is at a place in the description, following references; nil if nothing is.
func (d *openAPI) at(keys ...string) any {
	var v any = d.tree
	for _, key := range keys {
		m, _ := v.(map[string]any)
		v = d.followed(m[key])
	}
	return v
}

func (d *openAPI) followed(v any) any {
	if m, ok := v.(map[string]any); ok {
		if ref, ok := m["$ref"].(string); ok && len(m) == 1 {
			return d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return v
}

// check holds a value to the schema at a place. References on the way to it are followed.
func (d *openAPI) check(value any, keys ...string) error {
	place := "#"
	var v any = d.tree
	for _, key := range keys {
		m, _ := v.(map[string]any)
		if v = m[key]; v == nil {
			return fmt.Errorf("nothing is described at %v", keys)
		}
		place += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		if m, ok := v.(map[string]any); ok && m["$ref"] != nil && key != "schema" {
			place = m["$ref"].(string)
			v = d.followed(v)
		}
	}
	d.mu.Lock()
	schema, err := d.compiler.Compile(describedAt + strings.ReplaceAll(place, "{", "%7B"))
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// operations returns the described operations, as patterns: "GET /v1/inbox".
func (d *openAPI) operations() (all []string) {
	for path, item := range d.at("paths").(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				all = append(all, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// parameters returns the described parameters of an operation that are in query or path, by name.
func (d *openAPI) parameters(pattern, in string) map[string]any {
	method, path, _ := strings.Cut(pattern, " ")
	found := map[string]any{}
	shared, _ := d.at("paths", path, "parameters").([]any)
	own, _ := d.at("paths", path, strings.ToLower(method), "parameters").([]any)
	for _, p := range slices.Concat(shared, own) {
		if p := d.followed(p).(map[string]any); p["in"] == in {
			found[p["name"].(string)] = p["schema"]
		}
	}
	return found
}

// pathsOf returns the names in a pattern's path.
func pathsOf(pattern string) (names []string) {
	for part := range strings.SplitSeq(pattern, "/") {
		if strings.HasPrefix(part, "{") {
			names = append(names, strings.Trim(part, "{}"))
		}
	}
	slices.Sort(names)
	return names
}

// published is the schema of OpenAPI 3.1 documents as OpenAPI publishes it, which leaves open what a Schema Object is ("meta"): JSON Schema.
const published = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"$id": "https://forebay.invalid/openapi-3.1",
	"$ref": "https://spec.openapis.org/oas/3.1/schema/2022-10-07",
	"$defs": {"schema": {"$dynamicAnchor": "meta", "$ref": "https://json-schema.org/draft/2020-12/schema"}}
}`

// The description is a document of OpenAPI 3.1, and would not be one with a slip of typing in it.
func TestDescriptionIsOpenAPI(t *testing.T) {
	t.Parallel()
	open, err := os.ReadFile("testdata/openapi-3.1/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	for url, text := range map[string]string{"https://spec.openapis.org/oas/3.1/schema/2022-10-07": string(open), "https://forebay.invalid/openapi-3.1": published} {
		schema, err := treeOf([]byte(text))
		if err == nil {
			err = c.AddResource(url, schema)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	documents, err := c.Compile("https://forebay.invalid/openapi-3.1")
	if err != nil {
		t.Fatal(err)
	}
	if err := documents.Validate(openapi(t).tree); err != nil {
		t.Error(err)
	}
	for right, slip := range map[string]string{"operationId: inboxList": "operationID: inboxList", "type: string": "type: strin", "in: query": "in: qery"} {
		tree, err := treeOf(bytes.Replace(description, []byte(right), []byte(slip), 1))
		if err != nil {
			t.Fatal(err)
		}
		if documents.Validate(tree) == nil {
			t.Errorf("%s is no problem", slip)
		}
	}
}

// No route is without description, no description without route, and they agree in the parameters.
func TestRoutesAreDescribed(t *testing.T) {
	t.Parallel()
	d := openapi(t)
	routes := []string{"GET /livez", "GET /readyz", "GET /metrics", "GET /debug/pprof/{profile}", "GET /debug/runtime", "GET /v1/openapi.yaml"} // which are not questions
	for _, r := range (&server{}).routes() {
		routes = append(routes, r.pattern)
		if diff := cmp.Diff(slices.Sorted(slices.Values(r.query)), slices.Sorted(maps.Keys(d.parameters(r.pattern, "query")))); diff != "" {
			t.Errorf("%s has other parameters than are described in openapi.yaml (-has +described):\n%s", r.pattern, diff)
		}
		if diff := cmp.Diff(pathsOf(r.pattern), slices.Sorted(maps.Keys(d.parameters(r.pattern, "path")))); diff != "" {
			t.Errorf("%s has another path than is described (-has +described):\n%s", r.pattern, diff)
		}
	}
	slices.Sort(routes)
	if diff := cmp.Diff(routes, d.operations()); diff != "" {
		t.Errorf("routes and openapi.yaml (-routes +described):\n%s", diff)
	}
	ids := map[string]string{}
	for _, pattern := range d.operations() {
		method, path, _ := strings.Cut(pattern, " ")
		id, _ := d.at("paths", path, strings.ToLower(method), "operationId").(string)
		if id == "" || ids[id] != "" {
			t.Errorf("%s: operationId %q is missing, or that of %s", pattern, id, ids[id])
		}
		ids[id] = pattern
	}
}

// Every described path is answered by its own route, and the description is served.
func TestDescribedRoutesAreThere(t *testing.T) {
	t.Parallel()
	c, _ := setup(t, nil)
	for _, pattern := range openapi(t).operations() {
		method, path, _ := strings.Cut(pattern, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, c.base+strings.NewReplacer("{partition}", "1", "{offset}", "2", "{profile}", "profile?seconds=1", "{", "", "}", "").Replace(path), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusNotFound {
			t.Errorf("%s: %s", pattern, body)
		}
		if path == "/v1/openapi.yaml" && !bytes.Equal(body, description) {
			t.Errorf("%s: %.100s", pattern, body)
		}
	}
}

// wireTypes are the schemas of the description by the types that they are of.
var wireTypes = []any{
	Attention{}, AttentionItem{}, AttentionCount{}, AttentionUnknown{}, InboxItem{}, RedrivenItem{}, InboxDetail{}, ActionItem{}, AttemptItem{}, SenderItem{}, StoryItem{}, FilterItem{}, FilterPart{}, FilterValue{},
	DeliverySearch{}, UndecidedItem{}, RedriveRequest{}, RedriveItem{}, PlaceItem{}, EntityDetail{}, EntityItem{}, VersionLineItem{}, WaitItem{},
	QuarantineItem{}, QuarantineMark{}, QuarantineRedrive{}, QuarantineRedriven{},
	DeadLetterItem{}, DeadLetterGroup{}, DeadLetterDetail{}, CommandItem{}, DeadRecord{}, DeadHeader{}, InboxRecord{}, DeadLetterRequest{}, DeadLetterAnswer{},
	SourceItem{}, SourceTest{}, SourceTested{}, SeenItem{}, SecretItem{}, SkewItem{}, ConfigDifference{}, Drift{}, DriftItem{}, DriftType{}, SubscriptionItem{}, PartitionCounts{}, PartitionItem{}, PositionItem{}, SeekItem{},
	StopItem{}, AcceptedItem{}, StoppedItem{}, AcceptRequest{}, LagItem{}, SeekRequest{}, SeekAskedItem{}, PauseRequest{}, ScopeItem{}, BudgetItem{}, DestinationItem{}, RateItem{}, FailureItem{}, PauseItem{},
	ApprovalItem{}, ApprovalRequest{}, ReplayPlan{}, ReplayOffset{}, ReplayRequest{}, ReplayItem{}, ReplayShadow{}, ReplayDifference{}, ReplayRange{}, ReplayPartition{},
	AlertList{}, AlertItem{}, SilenceItem{}, SilenceRequest{}, SilenceEnd{},
	AuditItem{}, TokenItem{}, TokenMade{}, TokenRequest{}, TokenRevocation{},
	Live{}, Readiness{}, Check{}, Problem{}, Page[any]{},
}

// schemaName returns what the description calls a type: its name, but for those of the inbox and the ledger.
func schemaName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[InboxItem]():
		return "InboxItem"
	case reflect.TypeFor[RedrivenItem]():
		return "RedrivenItem"
	case reflect.TypeFor[CommandItem]():
		return "CommandItem"
	case reflect.TypeFor[PauseItem]():
		return "PauseItem"
	case reflect.TypeFor[SilenceItem]():
		return "SilenceItem"
	case reflect.TypeFor[AuditItem]():
		return "AuditItem"
	case reflect.TypeFor[TokenItem]():
		return "TokenItem"
	case reflect.TypeFor[ReplayShadow]():
		return "ReplayShadow"
	case reflect.TypeFor[DriftItem]():
		return "DriftItem"
	case reflect.TypeFor[DriftType]():
		return "DriftType"
	}
	name, _, _ := strings.Cut(t.Name(), "[")
	return name
}

// Every schema has the fields of its type, of the same JSON types, and requires those that are always there.
func TestSchemasAreTheTypes(t *testing.T) {
	t.Parallel()
	d := openapi(t)
	unknown := maps.Clone(d.at("components", "schemas").(map[string]any))
	for _, v := range wireTypes {
		typ := reflect.TypeOf(v)
		name := schemaName(typ)
		delete(unknown, name)
		has, described := map[string]string{}, map[string]string{}
		asks := fieldsOf(typ, has)
		d.fieldsOf(d.at("components", "schemas", name), described)
		if d.at("components", "schemas", name, "additionalProperties") == false { // a request: what must be there is up to the server
			for field, kind := range described {
				described[field] = strings.TrimPrefix(kind, "always ")
			}
			for field, kind := range has {
				has[field] = strings.NewReplacer("always ", "", "null|", "").Replace(kind)
			}
		} else if asks {
			t.Errorf("%s has a field dry_run, so it is a request: describe it with additionalProperties: false", name)
		}
		if diff := cmp.Diff(has, described); diff != "" {
			t.Errorf("components.schemas.%s of openapi.yaml is not what %s is on the wire (-type +described):\n%s", name, typ, diff)
		}
	}
	for name := range unknown {
		if !strings.HasSuffix(name, "Page") && name != "Empty" {
			t.Errorf("components.schemas.%s is no type's: add it to wireTypes, or take it out", name)
		}
	}
}

// fieldsOf collects the fields of a type as "always null|TYPE", and reports whether it has a field dry_run.
func fieldsOf(typ reflect.Type, into map[string]string) (asks bool) {
	for f := range typ.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
			continue
		case f.Anonymous:
			fieldsOf(f.Type, into)
			continue
		}
		kind := jsonType(f.Type)
		if strings.Contains(options, "omitempty") {
			kind = strings.TrimPrefix(kind, "null|")
		} else {
			kind = "always " + kind
		}
		into[name] = kind
		asks = asks || name == "dry_run"
	}
	if typ.Name() == "Page[interface {}]" { // its items are never null; see paged
		into["items"] = "always array"
	}
	return asks
}

func jsonType(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "string date-time"
	case t == reflect.TypeFor[json.RawMessage]():
		return "" // anything
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "null|string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "null|" + jsonType(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "null|array of " + strings.TrimPrefix(jsonType(t.Elem()), "null|")
	case reflect.Array:
		return "array of " + jsonType(t.Elem())
	case reflect.Map:
		return "null|object of " + jsonType(t.Elem())
	}
	return schemaName(t)
}

// fieldsOf collects the fields that a schema describes, in the words of the other fieldsOf.
func (d *openAPI) fieldsOf(schema any, into map[string]string) {
	s, _ := schema.(map[string]any)
	for _, part := range list(s["allOf"]) {
		d.fieldsOf(d.followed(part), into)
	}
	required := list(s["required"])
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		kind := describedType(p.(map[string]any))
		if slices.Contains(required, any(name)) {
			kind = "always " + kind
		}
		into[name] = kind
	}
}

func list(v any) []any { l, _ := v.([]any); return l }

// describedType returns the JSON type of a described field.
func describedType(p map[string]any) string {
	if ref, ok := p["$ref"].(string); ok {
		return ref[strings.LastIndexByte(ref, '/')+1:]
	}
	if or := list(p["anyOf"]); len(or) == 2 {
		return "null|" + describedType(or[0].(map[string]any))
	}
	kind, null := p["type"], ""
	if types := list(kind); len(types) == 2 && types[1] == "null" {
		kind, null = types[0], "null|"
	}
	text, _ := kind.(string)
	if items, ok := p["items"].(map[string]any); ok {
		text += " of " + describedType(items)
	}
	if inner, ok := p["additionalProperties"].(map[string]any); ok {
		text += " of " + describedType(inner)
	}
	if p["format"] == "date-time" {
		text += " date-time"
	}
	return null + text
}

// asDescribed holds what goes through a listener to the description: every answer, and every request that is not refused.
func asDescribed(t *testing.T, h http.Handler) http.Handler {
	d := openapi(t)
	mux := http.NewServeMux() // finds the operation
	for _, pattern := range d.operations() {
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		sent, _ := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		r.Body = io.NopCloser(bytes.NewReader(sent))
		got := httptest.NewRecorder()
		h.ServeHTTP(got, r)
		maps.Copy(w.Header(), got.Header())
		w.WriteHeader(got.Code)
		w.Write(got.Body.Bytes())
		if pattern == "" {
			return // of no operation: 404
		}
		if err := d.checkAnswer(pattern, got); err != nil {
			t.Errorf("%s %s: the answer %d is not as described: %v\n%.2000s", r.Method, r.URL, got.Code, err, got.Body)
		}
		if got.Code != http.StatusOK {
			return
		}
		if err := d.checkRequest(pattern, r, sent); err != nil {
			t.Errorf("%s %s: was answered and is not as described: %v\n%.2000s", r.Method, r.URL, err, sent)
		}
	})
}

func (d *openAPI) checkAnswer(pattern string, got *httptest.ResponseRecorder) error {
	method, path, _ := strings.Cut(pattern, " ")
	at := []string{"paths", path, strings.ToLower(method), "responses", fmt.Sprint(got.Code)}
	if d.at(at...) == nil {
		at[4] = "default"
	}
	kind, _, _ := strings.Cut(got.Header().Get("Content-Type"), ";")
	if kind == "application/problem+json" {
		at[4] = "default"
	}
	content, _ := d.at(append(at, "content")...).(map[string]any)
	if content[kind] == nil {
		return fmt.Errorf("content type %q of %d is not described", kind, got.Code)
	}
	if !strings.HasSuffix(kind, "json") {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(got.Body.Bytes()))
	if err != nil {
		return err
	}
	return d.check(value, append(at, "content", kind, "schema")...)
}

func (d *openAPI) checkRequest(pattern string, r *http.Request, sent []byte) error {
	method, path, _ := strings.Cut(pattern, " ")
	for name, values := range r.URL.Query() {
		schema := d.parameters(pattern, "query")[name]
		if schema == nil {
			return fmt.Errorf("parameter %q is not described", name)
		}
		if err := d.checkText(schema, values[0]); err != nil {
			return fmt.Errorf("parameter %q: %w", name, err)
		}
	}
	at := []string{"paths", path, strings.ToLower(method), "requestBody"}
	if d.at(at...) == nil {
		return nil // nobody reads it
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(sent))
	if err != nil {
		return err
	}
	return d.check(value, append(at, "content", "application/json", "schema")...)
}

// checkText holds a parameter, which is text, to its schema.
func (d *openAPI) checkText(schema any, text string) error {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("https://forebay.invalid/parameter", schema); err != nil {
		return err
	}
	compiled, err := c.Compile("https://forebay.invalid/parameter")
	if err != nil {
		return err
	}
	var value any = text
	if schema.(map[string]any)["type"] == "integer" {
		value = json.Number(text)
	}
	return compiled.Validate(value)
}
