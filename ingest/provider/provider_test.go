package provider_test

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

const whsec = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

var received = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// orders is the source of the design's example file.
func orders() provider.Config {
	return provider.Config{Preset: "generic", Verify: &verify.Params{SignatureHeader: "X-Signature", Prefix: "sha256="},
		Event: &provider.EventConfig{ID: "header:X-Event-Id", Type: "/type", Entity: []string{"/order/id"}, Payload: "snapshot",
			Version: &provider.VersionConfig{From: "/order/rev", Kind: "sequence"}}}
}

func compile(t testing.TB, cfg provider.Config) *provider.Source {
	t.Helper()
	cfg.Team, cfg.Name = "acme", "in"
	if cfg.Secrets == nil {
		info, _ := provider.Lookup(cfg.Preset)
		cfg.Secrets = []schemas.Secret{verify.ExampleSecret(info.Scheme)}
	}
	s, err := provider.Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// request takes headers as "Name: value".
func request(body string, headers ...string) *verify.Request {
	r := &verify.Request{Method: "POST", URL: "https://example.com/hook", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if http.CanonicalHeaderKey(name) == "Content-Type" {
			r.Header.Del(name)
		}
		r.Header.Add(name, value)
	}
	return r
}

// brief is what a test says about an event: the provider's id, be it the event's or the delivery's | type | entity | clock kind version [sub] | payload [deleted].
func brief(e *schemas.Event) string {
	parts := []string{cmp.Or(e.DeliveryID, e.ID), e.Type, string(e.Entity),
		strings.TrimSpace(e.Version.Clock + " " + string(e.Version.Kind) + " " + e.Version.Sortable()), string(e.Payload)}
	if e.Deleted {
		parts[4] += " deleted"
	}
	return strings.Join(parts, " | ")
}

func TestEvent(t *testing.T) {
	t.Parallel()
	const form = "Content-Type: application/x-www-form-urlencoded; charset=utf-8"
	gh := func(event string) []string { return []string{"X-GitHub-Event: " + event, "X-GitHub-Delivery: d1"} }
	tests := []struct {
		name, preset, body string
		headers            []string
		want               string
	}{
		{"comment", "github", `{"action":"created","repository":{"id":7},"issue":{"number":2,"updated_at":"2020-01-01T00:00:00Z"},"comment":{"updated_at":"2019-05-15T15:20:18Z"}}`,
			gh("issue_comment"), "d1 | com.github.issue_comment.created | 7/2 | comment timestamp 2019-05-15T15:20:18.000000000Z | delta"},
		{"issue deleted", "github", `{"action":"deleted","repository":{"id":7},"issue":{"number":2,"updated_at":"2019-05-15T15:20:18Z"}}`,
			gh("issues"), "d1 | com.github.issues.deleted | 7/2 | issue timestamp 2019-05-15T15:20:18.000000000Z+00001 | delta deleted"},
		{"large id as it stands", "github", `{"action":"x","repository":{"id":90071992547409931},"issue":{"number":2,"updated_at":"2019-05-15T15:20:18+02:00"}}`,
			gh("issues"), "d1 | com.github.issues.x | 90071992547409931/2 | issue timestamp 2019-05-15T13:20:18.000000000Z | delta"},
		{"pending review", "github", `{"action":"submitted","repository":{"id":7},"pull_request":{"number":2},"review":{"submitted_at":null}}`,
			gh("pull_request_review"), "d1 | com.github.pull_request_review.submitted | 7/2 | none | delta"},
		{"running check", "github", `{"action":"created","repository":{"id":7},"check_run":{"head_sha":"ab","completed_at":null}}`,
			gh("check_run"), "d1 | com.github.check_run.created | 7/ab | none | snapshot"},
		{"workflow rank", "github", `{"action":"completed","repository":{"id":7},"workflow_run":{"id":9,"status":"completed","updated_at":"2019-05-15T15:20:18Z"}}`,
			gh("workflow_run"), "d1 | com.github.workflow_run.completed | 7/workflow_run/9 | workflow_run timestamp 2019-05-15T15:20:18.000000000Z+00006 | delta"},
		{"unknown rank", "github", `{"action":"x","repository":{"id":7},"workflow_run":{"id":9,"status":"new","updated_at":"2019-05-15T15:20:18Z"}}`,
			gh("workflow_run"), "d1 | com.github.workflow_run.x | 7/workflow_run/9 | workflow_run timestamp 2019-05-15T15:20:18.000000000Z | delta"},
		{"push of a deletion", "github", `{"ref":"refs/heads/a b","before":"1","after":"0","commits":[],"deleted":true,"repository":{"id":7}}`,
			gh("push"), "d1 | com.github.push | 7/refs%2Fheads%2Fa%20b | none | delta deleted"},
		{"installation in seconds", "github", `{"action":"created","installation":{"id":3,"account":{},"updated_at":1557933618}}`,
			gh("installation"), "d1 | com.github.installation.created | installation:3 | installation timestamp 2019-05-15T15:20:18.000000000Z | delta"},
		{"installation as text", "github", `{"action":"deleted","installation":{"id":3,"account":{},"updated_at":"2019-05-15T15:20:18.000Z"}}`,
			gh("installation"), "d1 | com.github.installation.deleted | installation:3 | installation timestamp 2019-05-15T15:20:18.000000000Z+00001 | delta deleted"},
		{"branch created", "github", `{"ref":"a/b","ref_type":"branch","master_branch":"main","repository":{"id":7}}`,
			gh("create"), "d1 | com.github.create | 7/refs%2Fheads%2Fa%2Fb | none | delta"},
		{"its push", "github", `{"ref":"refs/heads/a/b","before":"0","after":"1","commits":[],"created":true,"repository":{"id":7}}`,
			gh("push"), "d1 | com.github.push | 7/refs%2Fheads%2Fa%2Fb | none | delta"},
		{"branch deleted", "github", `{"ref":"a/b","ref_type":"branch","repository":{"id":7}}`,
			gh("delete"), "d1 | com.github.delete | 7/refs%2Fheads%2Fa%2Fb | none | delta deleted"},
		{"a ref of a new kind", "github", `{"ref":"a","ref_type":"note","master_branch":"main","repository":{"id":7}}`,
			gh("create"), "d1 | com.github.create | 7 | none | delta"},
		{"draft released", "github", `{"action":"created","repository":{"id":7},"release":{"id":5,"published_at":null}}`,
			gh("release"), "d1 | com.github.release.created | 7/release/5 | none | delta"},
		// sub_issues: fields by https://docs.github.com/webhooks/webhook-events-and-payloads#sub_issues; nobody publishes a body.
		{"sub-issue added", "github", `{"action":"sub_issue_added","parent_issue_id":1,"parent_issue":{"id":1,"number":2,"updated_at":"2019-05-15T15:20:18Z"},"sub_issue_id":9,"sub_issue":{"number":3},"sub_issue_repo":{"id":8},"repository":{"id":7}}`,
			gh("sub_issues"), "d1 | com.github.sub_issues.sub_issue_added | 7/2 | sub_issues timestamp 2019-05-15T15:20:18.000000000Z | delta"},
		{"its parent told to the other repository", "github", `{"action":"parent_issue_added","parent_issue_id":1,"parent_issue":{"id":1,"number":2,"updated_at":"2019-05-15T15:20:18Z"},"parent_issue_repo":{"id":7},"sub_issue_id":9,"sub_issue":{"number":3},"repository":{"id":8}}`,
			gh("sub_issues"), "d1 | com.github.sub_issues.parent_issue_added | 7/2 | sub_issues timestamp 2019-05-15T15:20:18.000000000Z | delta"},
		{"check of its own clock", "github", `{"action":"completed","repository":{"id":7},"check_run":{"id":31,"head_sha":"ab","status":"completed","started_at":"2019-05-15T15:20:18Z","completed_at":"2019-05-15T15:21:12Z"}}`,
			gh("check_run"), "d1 | com.github.check_run.completed | 7/ab | check_run:31 timestamp 2019-05-15T15:21:12.000000000Z+00006 | delta"},
		{"requested action of a running check", "github", `{"action":"requested_action","repository":{"id":7},"check_run":{"id":31,"head_sha":"ab","status":"in_progress","started_at":"2019-05-15T15:20:18Z"}}`,
			gh("check_run"), "d1 | com.github.check_run.requested_action | 7/ab | check_run:31 timestamp 2019-05-15T15:20:18.000000000Z+00005 | delta"},
		{"second attempt of a job", "github", `{"action":"queued","repository":{"id":7},"workflow_job":{"id":32,"run_id":9,"run_attempt":2,"status":"queued","started_at":"2019-05-15T15:20:18Z"}}`,
			gh("workflow_job"), "d1 | com.github.workflow_job.queued | 7/workflow_run/9 | workflow_job:32 timestamp e000002:2019-05-15T15:20:18.000000000Z | snapshot"},
		{"each context of a commit has a clock of its own", "github", `{"id":5,"sha":"ab","name":"o/r","context":"ci/build","state":"success","updated_at":"2019-05-15T15:20:18+00:00","repository":{"id":7}}`,
			gh("status"), "d1 | com.github.status | 7/ab | status:ci/build timestamp 2019-05-15T15:20:18.000000000Z | delta"},
		{"a context that is too long for a name", "github", `{"id":5,"sha":"ab","name":"o/r","context":"Terraform Cloud/acme/wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww","state":"success","updated_at":"2019-05-15T15:20:18+00:00","repository":{"id":7}}`,
			gh("status"), "d1 | com.github.status | 7/ab | status:8f757d4acbacada2e81b4459b7a5e7ec timestamp 2019-05-15T15:20:18.000000000Z | delta"},
		{"merge group", "github", `{"action":"checks_requested","repository":{"id":7},"merge_group":{"head_sha":"ab"}}`,
			gh("merge_group"), "d1 | com.github.merge_group.checks_requested | 7/ab | none | delta"},
		{"where a secret was found", "github", `{"action":"created","repository":{"id":7},"alert":{"number":4},"location":{"type":"commit"}}`,
			gh("secret_scanning_alert_location"), "d1 | com.github.secret_scanning_alert_location.created | 7/secret_scanning_alert/4 | none | delta"},
		{"no mapping, of a repository", "github", `{"action":"created","starred_at":null,"repository":{"id":7},"organization":{"id":8}}`, gh("star"), "d1 | com.github.star.created | 7 | none | delta"},
		{"no mapping, of an organization", "github", `{"action":"added","member":{},"team":{},"scope":"team","organization":{"id":8}}`, gh("membership"), "d1 | com.github.membership.added | organization:8 | none | delta"},
		{"no mapping, of an installation", "github", `{"action":"renamed","account":{},"target_type":"User","installation":{"id":3}}`, gh("installation_target"), "d1 | com.github.installation_target.renamed | installation:3 | none | delta"},
		{"ping", "github", `{"zen":"x","hook_id":1}`, gh("ping"), "d1 | com.github.ping | in | none | delta"},
		{"no mapping", "github", `{"action":"deleted","starred_at":null}`, gh("star"), "d1 | com.github.star.deleted | in | none | delta"},
		{"an event that GitHub has not had yet", "github", `{"action":"created","thing":{}}`, gh("thing"), "d1 | com.github.thing.created | in | none | delta"},
		{"form", "github", `payload=%7B%22ref%22%3A%22r%22%2C%22before%22%3A%22%22%2C%22after%22%3A%22%22%2C%22commits%22%3A%5B%5D%2C%22repository%22%3A%7B%22id%22%3A7%7D%7D`,
			append(gh("push"), form), "d1 | com.github.push | 7/r | none | delta"},

		{"connect account", "stripe", `{"id":"evt_1","object":"event","account":"acct_1","type":"customer.deleted","created":1677834420,"data":{"object":{"object":"customer","id":"cus_1"}}}`,
			nil, "evt_1 | com.stripe.customer.deleted | acct_1/customer/cus_1 | timestamp 2023-03-03T09:07:00.000000000Z | delta deleted"},
		{"object without id", "stripe", `{"id":"evt_1","object":"event","account":null,"type":"balance.available","created":1677834420,"data":{"object":{"object":"balance"}}}`,
			nil, "evt_1 | com.stripe.balance.available | balance | timestamp 2023-03-03T09:07:00.000000000Z | delta"},
		{"object without id, of a customer", "stripe", `{"id":"evt_1","object":"event","type":"entitlements.active_entitlement_summary.updated","created":1677834420,"data":{"object":{"object":"entitlements.active_entitlement_summary","customer":"cus_1"}}}`,
			nil, "evt_1 | com.stripe.entitlements.active_entitlement_summary.updated | entitlements.active_entitlement_summary/cus_1 | timestamp 2023-03-03T09:07:00.000000000Z | snapshot"},
		{"thin", "stripe", `{"id":"evt_1","object":"v2.core.event","type":"v1.billing.meter.error","created":"2024-09-17T06:20:52.246Z","related_object":{"id":"mtr_1","type":"billing.meter"}}`,
			nil, "evt_1 | com.stripe.v1.billing.meter.error | billing.meter/mtr_1 | thin timestamp 2024-09-17T06:20:52.246000000Z | delta"},
		{"thin without object", "stripe", `{"id":"evt_1","object":"v2.core.event","type":"x","created":"2024-09-17T06:20:52.246Z","related_object":null}`,
			nil, "evt_1 | com.stripe.x | in | thin timestamp 2024-09-17T06:20:52.246000000Z | delta"},

		{"reply in thread", "slack", `{"type":"event_callback","team_id":"T","event_id":"Ev","event_time":1,"event":{"type":"message","channel":"C","ts":"2.000001","thread_ts":"1.000001","event_ts":"1515449522.000016"}}`,
			nil, "Ev | com.slack.message | T/C/1.000001 | event timestamp 2018-01-08T22:12:02.000016000Z | delta"},
		{"message changed", "slack", `{"type":"event_callback","team_id":"T","event_id":"Ev","event":{"type":"message","subtype":"message_changed","channel":"C","ts":"9.0","event_ts":"1515449522.000016","message":{"ts":"3.000001"}}}`,
			nil, "Ev | com.slack.message.message_changed | T/C/3.000001 | event timestamp 2018-01-08T22:12:02.000016000Z | delta"},
		{"message deleted", "slack", `{"type":"event_callback","team_id":"T","event_id":"Ev","event":{"type":"message","subtype":"message_deleted","channel":"C","deleted_ts":"4.000001","event_ts":"1515449522.000016"}}`,
			nil, "Ev | com.slack.message.message_deleted | T/C/4.000001 | event timestamp 2018-01-08T22:12:02.000016000Z | delta"},
		{"bot message", "slack", `{"type":"event_callback","team_id":"T","event_id":"Ev","event":{"type":"message","subtype":"bot_message","channel":"C","ts":"4.000001"},"event_time":1515449522}`,
			nil, "Ev | com.slack.message.bot_message | T/C/4.000001 | event timestamp 2018-01-08T22:12:02.000000000Z | delta"},
		{"channel object", "slack", `{"type":"event_callback","team_id":"T","event_id":"Ev","event":{"type":"channel_created","channel":{"id":"C"}}}`,
			nil, "Ev | com.slack.channel_created | T/C | none | delta"},
		// link_shared and function_executed: examples of https://docs.slack.dev/reference/events.
		{"link in a thread", "slack", `{"type":"event_callback","team_id":"T","event_id":"Ev","event":{"type":"link_shared","channel":"C","message_ts":"123456789.9875","thread_ts":"123456621.1855","source":"conversations_history","links":[]},"event_time":1515449522}`,
			nil, "Ev | com.slack.link_shared | T/C/123456621.1855 | event timestamp 2018-01-08T22:12:02.000000000Z | delta"},
		{"link in a message", "slack", `{"type":"event_callback","team_id":"T","event_id":"Ev","event":{"type":"link_shared","channel":"C","message_ts":"123456789.9875","links":[]},"event_time":1515449522}`,
			nil, "Ev | com.slack.link_shared | T/C/123456789.9875 | event timestamp 2018-01-08T22:12:02.000000000Z | delta"},
		{"step of a workflow", "slack", `{"type":"event_callback","team_id":"T","event_id":"Ev","event":{"type":"function_executed","function":{"id":"Fn1"},"function_execution_id":"Fx1","workflow_execution_id":"Wx1","event_ts":"1515449522.000016"}}`,
			nil, "Ev | com.slack.function_executed | T/Wx1 | event timestamp 2018-01-08T22:12:02.000016000Z | delta"},
		{"about a user", "slack", `{"type":"event_callback","team_id":"T","event_id":"Ev","event":{"type":"user_change","user":{"id":"U"}}}`,
			nil, "Ev | com.slack.user_change | T/U | none | delta"},
		{"app of an organization", "slack", `{"type":"event_callback","team_id":null,"enterprise_id":"E","event_id":"Ev","event":{"type":"app_home_opened","user":"U","channel":"D"}}`,
			nil, "Ev | com.slack.app_home_opened | E/D | none | delta"},
		{"unknown outer type", "slack", `{"type":"a_new_type","team_id":"T","event_id":"Ev"}`, nil, "Ev | com.slack.a_new_type | T | none | delta"},
		{"no channel", "slack", `{"type":"event_callback","team_id":"T","event_id":"Ev","event":{"type":"team_join"}}`,
			nil, "Ev | com.slack.team_join | T | none | delta"},
		{"rate limited", "slack", `{"type":"app_rate_limited","team_id":"T","minute_rate_limited":1}`,
			nil, "sha256:b23f4d8ff48fccff5a31bbb6c84eb5c1f7a0fb0b95ab04a81c1ed3e5ce1cfd85 | com.slack.app_rate_limited | T | none | delta"},
		{"command", "slack", `command=%2Fdeploy&team_id=T&channel_id=C&trigger_id=1`,
			[]string{form}, "sha256:dd5ff2e42ad50c5ec09dd1fdc82e2fd76cd4e14e1ec8f2ebcfdd7ea1bdbe2f4f | com.slack.command | T/C | none | delta"},
		{"interaction", "slack", `payload=%7B%22type%22%3A%22block_actions%22%2C%22team%22%3A%7B%22id%22%3A%22T%22%7D%2C%22channel%22%3A%7B%22id%22%3A%22C%22%7D%2C%22message%22%3A%7B%22ts%22%3A%221.2%22%7D%7D`,
			[]string{form}, "sha256:0 | com.slack.block_actions | T/C/1.2 | none | delta"},
		{"a JSON type that is a rule of forms", "slack", `{"type":"command","event_id":"Ev"}`, nil, "Ev | com.slack.command | in | none | delta"},

		{"standard", "standard-webhooks", `{"type":"invoice.paid","data":{}}`, []string{"webhook-id: msg_1"}, "msg_1 | invoice.paid | in | none | delta"},
		{"svix", "standard-webhooks", `{"type":"invoice.paid"}`, []string{"svix-id: msg_1"}, "msg_1 | invoice.paid | in | none | delta"},

		{"generic", "generic", `{"type":"order.changed","order":{"id":"a/b","rev":12}}`, []string{"X-Event-Id: 1"},
			"1 | order.changed | a%2Fb | sequence 00000000000000000012 | snapshot"},
		{"largest counter", "generic", `{"type":"t","order":{"id":1.50,"rev":9223372036854775807}}`, []string{"X-Event-Id: 1"},
			"1 | t | 1.50 | sequence 09223372036854775807 | snapshot"},
	}
	for _, tt := range tests {
		t.Run(tt.preset+"/"+tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := provider.Config{Preset: tt.preset}
			if tt.preset == "generic" {
				cfg = orders()
			}
			s := compile(t, cfg)
			r := request(tt.body, tt.headers...)
			e, err := s.Event(r, received)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Validate(); err != nil {
				t.Error(err)
			}
			got := brief(e)
			if strings.HasPrefix(tt.want, "sha256:") { // the digest itself is checked in TestBodyAsID
				got, tt.want = got[strings.IndexByte(got, ' '):], tt.want[strings.IndexByte(tt.want, ' '):]
			}
			if got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
			if strings.HasPrefix(e.ID, "sha256:") != (e.DeliveryID != "") && tt.preset == "github" {
				t.Errorf("id %q of delivery %q", e.ID, e.DeliveryID)
			}
			data, contentType := tt.body, r.Header.Get("Content-Type")
			if form, err := url.ParseQuery(tt.body); err == nil && form.Get("payload") != "" { // the JSON text in it is the event's body
				data, contentType = form.Get("payload"), "application/json"
			}
			if string(e.Data) != data || e.Source != "/acme/in" || e.RecordedTime != received ||
				e.DataContentType != contentType {
				t.Errorf("%+v", e)
			}
			if e.Version.Kind != schemas.Timestamp && e.Time != received {
				t.Errorf("time %s, want the intake's", e.Time)
			}
			if e.Version.Kind == schemas.Timestamp && e.Time.UnixNano() != e.Version.Value {
				t.Errorf("time %s is not the version's", e.Time)
			}
		})
	}
}

func TestUnusable(t *testing.T) {
	t.Parallel()
	id := []string{"X-Event-Id: 1"}
	const form = "Content-Type: application/x-www-form-urlencoded"
	body := func(rev string) string { return `{"type":"t","order":{"id":1,"rev":` + rev + `}}` }
	tests := []struct {
		name, preset, body string
		headers            []string
		want               string
	}{
		{"not JSON", "generic", `order=1`, id, provider.NotJSON},
		{"empty", "generic", ``, id, provider.NotJSON},
		{"no gzip behind its first bytes", "generic", "\x1f\x8b{}", id, provider.BadEncoding},
		{"trailing garbage", "generic", body("1") + "x", id, provider.NotJSON},
		{"duplicate", "generic", `{"type":"t","type":"u","order":{"id":1,"rev":1}}`, id, provider.DuplicateKey},
		{"too deep", "generic", strings.Repeat("[", 200), id, provider.TooDeep},
		{"unpaired surrogate", "generic", `{"type":"\ud800","order":{"id":1,"rev":1}}`, id, provider.BadString},
		{"no type", "generic", `{"order":{"id":1,"rev":1}}`, id, provider.MissingField},
		{"type in other case", "generic", `{"Type":"t","order":{"id":1,"rev":1}}`, id, provider.MissingField},
		{"empty type", "generic", `{"type":"","order":{"id":1,"rev":1}}`, id, provider.MissingField},
		{"type is an object", "generic", `{"type":{},"order":{"id":1,"rev":1}}`, id, provider.WrongType},
		{"type is a boolean", "generic", `{"type":true,"order":{"id":1,"rev":1}}`, id, provider.WrongType},
		{"no entity", "generic", `{"type":"t","order":{"rev":1}}`, id, provider.MissingField},
		{"entity null", "generic", `{"type":"t","order":{"id":null,"rev":1}}`, id, provider.MissingField},
		{"no version", "generic", `{"type":"t","order":{"id":1}}`, id, provider.MissingField},
		{"version null", "generic", body("null"), id, provider.MissingField},
		{"negative", "generic", body("-1"), id, provider.BadVersion},
		{"fraction", "generic", body("1.0"), id, provider.BadVersion},
		{"exponent", "generic", body("1e3"), id, provider.BadVersion},
		{"2^63", "generic", body("9223372036854775808"), id, provider.BadVersion},
		{"counter in words", "generic", body(`"one"`), id, provider.BadVersion},
		{"leading zero", "generic", body(`"01"`), id, provider.BadVersion},
		{"no id", "generic", body("1"), nil, provider.MissingField},
		{"id twice", "generic", body("1"), []string{"X-Event-Id: 1", "X-Event-Id: 1"}, provider.RepeatedHeader},
		{"id too long", "generic", body("1"), []string{"X-Event-Id: " + strings.Repeat("x", 5000)}, provider.TooLong},
		{"control in id", "generic", body("1"), []string{"X-Event-Id: a\tb"}, provider.ControlCharacter},
		{"id not UTF-8", "generic", body("1"), []string{"X-Event-Id: \xff"}, provider.BadString},
		{"control in type", "generic", `{"type":"a\u0000","order":{"id":1,"rev":1}}`, id, provider.ControlCharacter},
		{"C1 control in entity", "generic", `{"type":"t","order":{"id":"\u0085","rev":1}}`, id, provider.ControlCharacter},
		{"non-character", "generic", `{"type":"t\uffff","order":{"id":1,"rev":1}}`, id, provider.ControlCharacter},
		{"type too long", "generic", `{"type":"` + strings.Repeat("t", 256) + `","order":{"id":1,"rev":1}}`, id, provider.TooLong},
		{"entity too long once encoded", "generic", `{"type":"t","order":{"id":"` + strings.Repeat("/", 342) + `","rev":1}}`, id, provider.TooLong},
		{"no event header", "github", `{}`, nil, provider.MissingField},
		{"another event's name", "github", `{"action":"opened","repository":{"id":1},"issue":{"number":1}}`, []string{"X-GitHub-Event: push"}, provider.TypeMismatch},
		{"a comment as its issue", "github", `{"action":"edited","repository":{"id":1},"issue":{"number":1},"comment":{}}`, []string{"X-GitHub-Event: issues"}, provider.TypeMismatch},
		{"a type as the event's name", "github", `{"ref":"r","repository":{"id":1}}`, []string{"X-GitHub-Event: issues.opened"}, provider.TypeMismatch},
		{"a name with a slash", "github", `{"action":"x"}`, []string{"X-GitHub-Event: issues/x"}, provider.TypeMismatch},
		{"JSON that is sent as a form", "github", `{"title":"&payload=%7B%22zen%22%3A1%2C%22hook_id%22%3A1%7D&"}`, []string{form, "X-GitHub-Event: ping"}, provider.BadForm},
		{"JSON behind a space that is sent as a form", "slack", ` {"text":"&command=x&team_id=T"}`, []string{form}, provider.BadForm},
		{"issue without time", "github", `{"repository":{"id":1},"issue":{"number":1}}`, []string{"X-GitHub-Event: issues", "X-GitHub-Delivery: 1"}, provider.MissingField},
		{"time of no calendar", "github", `{"repository":{"id":1},"issue":{"number":1,"updated_at":"2019-02-30T00:00:00Z"}}`, []string{"X-GitHub-Event: issues", "X-GitHub-Delivery: 1"}, provider.BadVersion},
		{"form without payload", "github", `a=1`, []string{form, "X-GitHub-Event: push", "X-GitHub-Delivery: 1"}, provider.MissingField},
		{"two payloads", "github", `payload={}&payload={}`, []string{form, "X-GitHub-Event: push", "X-GitHub-Delivery: 1"}, provider.DuplicateKey},
		{"broken form", "github", `payload=%zz`, []string{form, "X-GitHub-Event: push", "X-GitHub-Delivery: 1"}, provider.BadForm},
		{"payload is no JSON", "slack", `payload=x`, []string{form}, provider.NotJSON},
		{"command without team", "slack", `command=x`, []string{form}, provider.MissingField},
		{"Stripe in milliseconds", "stripe", `{"id":"e","type":"t","created":1677834420000,"data":{"object":{"object":"o"}}}`, nil, provider.BadVersion},
		{"no webhook id", "standard-webhooks", `{"type":"t"}`, nil, provider.MissingField},
	}
	seen := map[string]bool{provider.ExpressionFailed: true, provider.ExpressionCost: true} // in TestExpressionMakesUnusable
	for _, tt := range tests {
		seen[tt.want] = true
		t.Run(tt.preset+"/"+tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := provider.Config{Preset: tt.preset}
			if tt.preset == "generic" {
				cfg = orders()
			}
			e, err := compile(t, cfg).Event(request(tt.body, tt.headers...), received)
			u, ok := errors.AsType[*provider.Unusable](err)
			if !ok || u.Reason != tt.want || e != nil {
				t.Errorf("got %v %v, want %s", e, err, tt.want)
			}
			if ok && (u.Detail == "" || len(u.Detail) > 200) {
				t.Errorf("detail %q", u.Detail)
			}
		})
	}
	seen[provider.SchemaMisfit] = true // of events that can be made: TestCheckSchema
	for _, r := range provider.UnusableReasons() {
		if !seen[r] {
			t.Errorf("no case for %s", r)
		}
	}
}

// TestSignedSourcesVerify is what `forebay send` relies on.
func TestSignedSourcesVerify(t *testing.T) {
	t.Parallel()
	again := 0
	for _, info := range provider.Presets() {
		cfg := provider.Config{Preset: info.Name}
		if info.Name == "generic" {
			cfg = orders()
		}
		s := compile(t, cfg)
		r := &verify.Request{Method: "POST", URL: "https://example.com/hook", Body: []byte(`{"type":"t","id":"1","created":1677834420,"webhookTimestamp":1,"data":{"object":{"object":"o"}},"order":{"id":1,"rev":1}}`)}
		if err := s.Sign(r, received); err != nil {
			t.Fatal(info.Name, err)
		}
		if err := s.Verifier.Verify(r, received); err != nil {
			t.Error(info.Name, err)
		}
		r.Header.Set("X-GitHub-Event", "ping")
		first, err := s.Event(r, received) // which a preset may call unusable: it is nobody's real body
		if _, content := errors.AsType[*provider.Unusable](err); err != nil && !content {
			t.Error(info.Name, err)
		}
		if err := s.Sign(r, received); err != nil {
			t.Fatal(err)
		}
		if e, err := s.Event(r, received); err == nil {
			if again++; e.ID != first.ID {
				t.Errorf("%s: signing again changed the id", info.Name)
			}
		}
	}
	if again < 10 {
		t.Errorf("only %d presets made an event of it", again)
	}
}

func TestSecretHeaders(t *testing.T) {
	t.Parallel()
	cfg := orders()
	cfg.Verify = &verify.Params{Scheme: "token", Header: "X-Gitlab-Token"}
	if got := compile(t, cfg).SecretHeaders(); !slices.Equal(got, []string{"X-Gitlab-Token"}) {
		t.Errorf("%v", got)
	}
	if got := compile(t, orders()).SecretHeaders(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
