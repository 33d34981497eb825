package integration

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// hostile is what a sender writes into a field: markup that would run script as text, in an attribute, as a link and in a cell, and commands
// for whoever copies it into a shell. Elements that it becomes have data-injected.
func hostile(field string) string {
	return "inj-" + field + `'"><script data-injected>alert(1)</script><img data-injected src=x onerror=alert(2)></td></pre><a data-injected href=javascript:alert(3)>$(touch pwned)` + "`touch pwned`" + `;touch pwned`
}

// hostileVersion is one that is a version: without spaces, and short.
const hostileVersion = `v'"><img/data-injected/src=x/onerror=alert(4)>`

// hostileSources are sources beside the one of the orders, whose events no subscription has, or the agent's.
const hostileSources = `      texts:
        preset: generic
        secrets: ["${env:ORDERS_SECRET}"]
        verify: {algorithm: sha256, signature_header: X-Signature, prefix: "sha256=", encoding: hex, signed: "{body}"}
        event: {id: header:X-Event-Id, delivery_id: header:X-Delivery, type: /type, entity: [/order/id], version: {from: /order/rev, kind: monotonic, as: text}, payload: snapshot, keep_headers: [X-Note], chain: true}
      forms:
        preset: generic
        secrets: ["${env:ORDERS_SECRET}"]
        verify: {algorithm: sha256, signature_header: X-Signature, prefix: "sha256=", encoding: hex, signed: "{body}"}
        event: {id: header:X-Event-Id, type: /type, entity: [/order/id], payload: snapshot}
        json_schema: {check: quarantine, own: "${file:SCHEMA}"}
      drifts:
        preset: generic
        secrets: ["${env:ORDERS_SECRET}"]
        verify: {algorithm: sha256, signature_header: X-Signature, prefix: "sha256=", encoding: hex, signed: "{body}"}
        event: {id: header:X-Event-Id, type: /type, entity: [/order/id], payload: snapshot}
`

// TestHostileSender writes markup with script into every field that a sender controls, and looks in a browser at every page that the console's
// first one leads to: each field is shown as text, in the live view, too, and nothing runs. What is to be copied as curl is one command with
// the sender's body, whatever is in it.
func TestHostileSender(t *testing.T) {
	t.Parallel()
	r := deployLong(t, rig.Fake(t), "{deadline: 5m, heartbeat: 2m}")
	schema := filepath.Join(r.dir, "forms.schema.json")
	if err := os.WriteFile(schema, []byte(`{"$id": "https://example.com/forms/1", "type": "object", "additionalProperties": {"type": ["object", "string"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.edit("    destinations:\n", strings.Replace(hostileSources, "SCHEMA", schema, 1)+"    destinations:\n")
	r.edit("sources: [github]", "sources: [github, texts, forms]")
	r.command("topics", "apply", "-c", r.config)
	answer := r.agent.answer
	r.agent.answer = func(c call) int {
		if status := answer(c); status == http.StatusAccepted {
			return status
		}
		return http.StatusUnprocessableEntity
	}
	r.agent.reply = func(_ call, status int, h http.Header) string {
		h.Set("Content-Type", "text/html")
		return hostile("answer")
	}
	p := r.serve("intake,stream")
	b := openBrowser(t, "http://"+p.operator)
	b.noticesInjections()

	b.open("/console/inbox")
	b.do("complaints") // that it is elsewhere than the careless server
	b.see("status", "Live")
	body := fmt.Sprintf(`{"type":%q,"order":{"id":%q,"rev":%q},%q:%q}`, hostile("type"), hostile("entity"), hostileVersion, hostile("key"), hostile("note"))
	r.accepts(delivery{source: "texts", id: hostile("id"), body: []byte(body)}, http.Header{"X-Delivery": {hostile("delivery")}, "X-Note": {hostile("header")},
		"Content-Type": {`application/json; x="` + hostile("content-type") + `"`}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Tracestate": {"a=" + hostileState}})
	slow, gap := "slow"+hostile("slow"), hostile("gap")
	ordered := func(entity string, rev int) delivery {
		d := delivery{source: "orders", id: fmt.Sprintf("%s-%d", hostile("order"), rev) + entity[:4], entity: entity, number: rev}
		d.body = fmt.Appendf(nil, `{"type":%q,"order":{"id":%q,"rev":%d}}`, hostile("type"), entity, rev)
		return d
	}
	for _, d := range []delivery{ordered(slow, 1), ordered(slow, 2), ordered(gap, 1), ordered(gap, 3)} {
		r.accepts(d, nil)
	}
	nameless := delivery{source: "orders", id: hostile("nameless"), body: fmt.Appendf(nil, `{"type":%q,"order":{"rev":%q}}`, hostile("quarantined"), hostile("rev"))}
	misfit := delivery{source: "forms", id: hostile("misfit"), body: fmt.Appendf(nil, `{"type":"x","order":{"id":"f"},%q:true}`, hostile("schema"))}
	r.accepts(nameless, nil)
	r.accepts(misfit, nil)
	drifts := 0
	drift := func(more string) {
		drifts++
		r.accepts(delivery{source: "drifts", id: fmt.Sprint(drifts), body: fmt.Appendf(nil, `{"type":%q,"order":{"id":"d"},%s}`, hostile("drifting"), more)}, nil)
	}
	for range 100 {
		drift(`"total":5`)
	}
	until(t, "fields have drifted", func() bool {
		drift(fmt.Sprintf(`"total":5,%q:1`, hostile("field")))
		var page struct{ Items []any }
		return p.get("/v1/schemas/drift", nil, &page) == nil && len(page.Items) > 0
	})
	until(t, "the slow agent was asked", func() bool { return strings.Contains(fmt.Sprint(r.agent.snapshot()), "inj-slow") })
	if status, said := p.post(t, r.slowCall().result, r.slowCall().token, fmt.Sprintf(`{"status":"dead","error":%q,"response":%q}`, hostile("error"), hostile("response"))); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, said)
	}
	waitItems(t, r, p, 3, "--status", "dead_letter")
	for _, text := range []string{hostile("id"), hostile("type"), hostileVersion, hostile("order") + "-2slow", "the destination reported a failure; the answer has its words"} {
		b.see("row", text)
	}
	b.runsNothing("the live view", http.StatusOK)

	dead, err := r.dlq(p, "list")
	if err != nil || len(dead) != 3 {
		t.Fatalf("%+v %v", dead, err)
	}
	replayed := 0
	for _, d := range dead {
		if d.EventID == hostile("id") {
			replayed++
			b.open("/console/dlq/replay?action=" + d.ID)
			b.confirm("Replay 1 dead letter", "once more")
			b.see("heading", "What became of it")
			b.runsNothing("a replay", http.StatusOK)
		}
	}
	if replayed != 1 {
		t.Errorf("%d dead letters were replayed, want one", replayed)
	}
	plan := r.mustReplay(p, "plan", "--subscription", "triage", "--mode", "shadow", r.team+"/triage/texts/"+hostile("id"))
	r.mustReplay(p, "start", plan.ID, "--reason", "to look")
	plan = r.mustReplay(p, "plan", "--subscription", "fulfil", "--mode", "reprocess")

	want := map[string]string{"body": body, "version": hostileVersion, "state": hostileState, "quarantined": string(nameless.body), "misfit": string(misfit.body),
		"field":  strings.ReplaceAll(hostile("field"), "/", "~1"),                            // in a JSON Pointer
		"schema": "inj-schema", "entity": "inj-entity", "gap": "inj-gap", "slow": "inj-slow"} // which are shown with escapes
	for _, field := range []string{"id", "delivery", "type", "header", "content-type", "order", "answer", "error", "response", "drifting", "filter"} {
		want[field] = hostile(field)
	}
	for _, text := range b.everyPage("/console/inbox?"+url.Values{"delivery": {hostile("delivery")}, "since": {"1h"}}.Encode(), "/console/inbox?"+url.Values{"entity": {hostile("filter")}}.Encode(),
		"/console/event?"+url.Values{"id": {r.team + "/triage/texts/" + hostile("nobody")}}.Encode(), "/console/"+url.PathEscape(hostile("path")), "/console/replays/"+plan.ID) {
		maps.DeleteFunc(want, func(_, shown string) bool { return strings.Contains(text, shown) })
	}
	for field, text := range want {
		t.Errorf("no page shows what the sender wrote as %s: %s", field, text)
	}
	b.open("/console/event?" + url.Values{"id": {r.team + "/triage/texts/" + hostile("id")}}.Encode())
	sh := exec.CommandContext(t.Context(), "sh", "-c", `curl() { for word; do :; done; printf %s "$word"; }`+"\n"+b.do("part", "selector", "#curl").(string))
	sh.Dir = t.TempDir()
	out, err := sh.CombinedOutput()
	if left, _ := os.ReadDir(sh.Dir); err != nil || string(out) != body || len(left) > 0 {
		t.Errorf("as a shell reads the curl of the page: %q %v, and has made %v; the body is %q", out, err, left, body)
	}
}

// hostileState is a tracestate that is one.
const hostileState = `'"><img/data-injected/src`

// accepts has the intake take a delivery with more headers.
func (r *deployment) accepts(d delivery, more http.Header) {
	r.t.Helper()
	req := d.request(r.t.Context(), r.intake.Load().intake, r.team)
	maps.Copy(req.Header, more)
	if status := do(r.t, req); status != http.StatusAccepted {
		r.t.Fatalf("%s of %s is answered %d", d.id, d.source, status)
	}
}

// slowCall is the call that the agent said it would answer later.
func (r *deployment) slowCall() (found call) {
	for _, c := range r.agent.snapshot() {
		if strings.HasPrefix(c.entity, "slow") {
			found = c
		}
	}
	return found
}

// noticesInjections fails the test unless the browser would tell that a sender's text was taken as markup: it opens pages of another server
// that does that, with the console's policy and without.
func (b *browser) noticesInjections() {
	b.t.Helper()
	careless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/policy" {
			w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'")
		}
		fmt.Fprintf(w, `<main><p title="%s">%s</p></main>`, hostile("title"), hostile("text"))
	}))
	defer careless.Close()
	for path, want := range map[string]string{"/": "dialog: 1", "/policy": "Content Security Policy"} {
		b.do("open", "url", careless.URL+path)
		if found := b.do("markup").([]any); len(found) < 4 {
			b.t.Errorf("%s: of what a careless server makes markup, the browser tells %v", path, found)
		}
		if said := fmt.Sprint(b.do("complaints")); !strings.Contains(said, want) {
			b.t.Errorf("%s: the browser does not tell %q: %s", path, want, said)
		}
	}
}

// runsNothing fails the test if a sender's text has become markup of the open page, or the page was refused anything since the last look. Of a
// page whose own status is no success, the browser says so.
func (b *browser) runsNothing(page string, status int) {
	b.t.Helper()
	for _, element := range b.do("markup").([]any) {
		b.t.Errorf("%s has made an element of a sender's text: %s", page, element)
	}
	for _, complaint := range b.do("complaints").([]any) {
		if status == http.StatusOK || !strings.Contains(complaint.(string), fmt.Sprintf("status of %d", status)) {
			b.t.Errorf("%s: %s", page, complaint)
		}
	}
}

// everyPage opens every page that the console's first one and others lead to, and returns what each says, by its path.
func (b *browser) everyPage(more ...string) map[string]string {
	b.t.Helper()
	kind := regexp.MustCompile(`^/console/[a-z]*(/[a-z]*)?`)
	todo, seen, kinds, texts := append([]string{"/console/"}, more...), map[string]bool{}, map[string]int{}, map[string]string{}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		if seen[path] || strings.HasSuffix(path, "/raw") || strings.HasPrefix(path, "/console/event/raw") || !strings.HasPrefix(path, "/console/") {
			continue
		}
		if seen[path] = true; kinds[kind.FindString(path)] >= 4 {
			continue
		}
		kinds[kind.FindString(path)]++
		status := int(b.do("open", "url", b.base+path).(float64))
		texts[path] = b.do("whole").(string)
		b.runsNothing(path, status)
		for _, link := range b.do("links").([]any) {
			todo = append(todo, link.(string))
		}
	}
	b.t.Logf("%d pages: %v", len(texts), kinds)
	return texts
}
