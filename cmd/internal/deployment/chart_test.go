package deployment

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rights"
)

const root = "../../.."

// object is a node of YAML.
type object = map[string]any

// at goes into a tree by keys and, of lists, to the first item.
func at(tree any, keys ...string) any {
	for _, k := range keys {
		if list, ok := tree.([]any); ok && len(list) > 0 {
			tree = list[0]
		}
		m, _ := tree.(object)
		tree = m[k]
	}
	return tree
}

// manifests reads what the chart makes of the values called name.
func manifests(t *testing.T, name string) (list []object) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var m object
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		if m != nil {
			list = append(list, m)
		}
	}
}

// find returns a manifest; nil if there is none.
func find(list []object, kind, name string) object {
	for _, m := range list {
		if m["kind"] == kind && at(m, "metadata", "name") == name {
			return m
		}
	}
	return nil
}

// TestManifestsAreOfThisChart: what the other tests read was rendered from the chart as it stands.
func TestManifestsAreOfThisChart(t *testing.T) {
	t.Parallel()
	sums, err := os.ReadFile("testdata/chart.sha256")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[path] = sum
	}
	have := map[string]string{}
	add := func(path string) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		have[path] = hex.EncodeToString(sum[:])
	}
	err = fs.WalkDir(os.DirFS(root), "deploy/helm/forebay", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			add(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	add("deploy/helm/examples/values.yaml")
	add("cmd/internal/deployment/testdata/full.values.yaml")
	if !maps.Equal(want, have) {
		t.Errorf("the chart has changed: run .ci/deploy render")
	}
	dashboards, err := filepath.Glob(filepath.Join(root, "deploy/dashboards/*.json"))
	if err != nil || len(dashboards) == 0 {
		t.Fatal(err, dashboards)
	}
	links := map[string]string{"forebay.rules.yaml": "../../../alerts/forebay.rules.yaml", "forebay.recording.yaml": "../../../alerts/forebay.recording.yaml"}
	for _, d := range dashboards {
		links["dashboards/"+filepath.Base(d)] = "../../../../dashboards/" + filepath.Base(d)
	}
	for link, to := range links {
		if got, err := os.Readlink(filepath.Join(root, "deploy/helm/forebay/files", link)); err != nil || got != to {
			t.Errorf("%s is %q, %v: the chart has no copy of what is shipped, and all of it", link, got, err)
		}
	}
}

// pods are the pod templates of manifests, by component.
func pods(list []object) map[string]object {
	found := map[string]object{}
	for _, m := range list {
		if p, ok := at(m, "spec", "template").(object); ok && slices.Contains([]any{"Deployment", "StatefulSet", "Job"}, m["kind"]) {
			found[at(p, "metadata", "labels", "app.kubernetes.io/component").(string)] = p
		}
	}
	return found
}

// TestPodsAreConfined: no pod runs as root, writes to its root, has a capability or a token of Kubernetes; the roles have their probes.
func TestPodsAreConfined(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"default", "example", "full"} {
		list := manifests(t, name)
		all, want := pods(list), []string{"intake", "migrate", "stream", "topics"}
		if name == "full" {
			want = []string{"intake", "migrate", "stream", "stream-billing", "topics"}
		}
		if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
			t.Fatalf("%s: pods of %v", name, got)
		}
		for part, p := range all {
			c := at(p, "spec", "containers")
			for what, ok := range map[string]bool{
				"runs as 65532":      at(p, "spec", "securityContext", "runAsUser") == 65532 && at(p, "spec", "securityContext", "runAsNonRoot") == true,
				"seccomp":            at(p, "spec", "securityContext", "seccompProfile", "type") == "RuntimeDefault",
				"no token":           at(p, "spec", "automountServiceAccountToken") == false,
				"its own account":    at(p, "spec", "serviceAccountName") == "forebay-"+part && find(list, "ServiceAccount", "forebay-"+part) != nil,
				"read-only root":     at(c, "securityContext", "readOnlyRootFilesystem") == true,
				"no escalation":      at(c, "securityContext", "allowPrivilegeEscalation") == false,
				"no capabilities":    fmt.Sprint(at(c, "securityContext", "capabilities", "drop")) == "[ALL]",
				"bounded memory":     at(c, "resources", "limits", "memory") != nil && at(c, "resources", "requests", "cpu") != nil,
				"a policy":           find(list, "NetworkPolicy", "forebay-"+part) != nil,
				"no role of its own": find(list, "Role", "forebay-"+part) == nil && find(list, "RoleBinding", "forebay-"+part) == nil,
			} {
				if !ok {
					t.Errorf("%s: %s: not so: %s", name, part, what)
				}
			}
			if part == "migrate" || part == "topics" {
				continue
			}
			role, _, _ := strings.Cut(part, "-")
			if live, ready := at(c, "livenessProbe", "httpGet", "path"), at(c, "readinessProbe", "httpGet", "path"); live != "/livez" || ready != "/readyz?role="+role {
				t.Errorf("%s: %s is asked at %v and %v", name, part, live, ready)
			}
			grace, _ := at(p, "spec", "terminationGracePeriodSeconds").(int)
			also := map[string]string{"stream-billing": "--subscriptions forebay.billing "}[part]
			if args := fmt.Sprint(at(c, "args")); grace <= 25 || args != fmt.Sprintf("[serve --roles %s %s--drain 25s]", role, also) {
				t.Errorf("%s: %s has %d s for %s", name, part, grace, args)
			}
			if find(list, "PodDisruptionBudget", "forebay-"+part) == nil || len(at(p, "spec", "topologySpreadConstraints").([]any)) != 2 {
				t.Errorf("%s: %s is not spread, or has no budget", name, part)
			}
		}
		for _, part := range []string{"migrate", "topics"} {
			for _, kind := range []string{"Job", "ServiceAccount", "NetworkPolicy"} {
				if hook := at(find(list, kind, "forebay-"+part), "metadata", "annotations", "helm.sh/hook"); hook != "pre-install,pre-upgrade" {
					t.Errorf("%s: %s of %s is the hook %v", name, kind, part, hook)
				}
			}
		}
	}
}

// TestSecretsOfRoles: each pod has the secrets of its role and no others.
func TestSecretsOfRoles(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]map[string]string{"example": {
		"intake":  "env forebay-intake, env intake-secrets, file kafka-cluster-ca-cert",
		"stream":  "env forebay-db-app, env forebay-stream, env stream-secrets, file kafka-cluster-ca-cert",
		"migrate": "env forebay-db-app, file kafka-cluster-ca-cert",
		"topics":  "env forebay-admin, file kafka-cluster-ca-cert",
	}, "full": {
		"intake": "env intake-secrets, file intake-files, file kafka-ca", "stream": "env stream-secrets, file kafka-ca, file stream-files",
		"stream-billing": "env billing-secrets, file kafka-ca, file stream-files",
		"migrate":        "file kafka-ca", "topics": "file kafka-ca",
	}} {
		all := pods(manifests(t, values))
		if len(all) != len(want) {
			t.Errorf("%s: %d pods, want %d", values, len(all), len(want))
		}
		for part, p := range all {
			if got := secretsOf(p); got != want[part] {
				t.Errorf("%s: %s has %s, want %s", values, part, got, want[part])
			}
		}
	}
}

// secretsOf lists the Secrets of a pod, as variables and as files, each of which it mounts.
func secretsOf(p object) string {
	var got []string
	c := at(p, "spec", "containers")
	env, _ := at(c, "env").([]any)
	for _, e := range env {
		if name := at(e, "valueFrom", "secretKeyRef", "name"); name != nil {
			got = append(got, "env "+name.(string))
		}
	}
	from, _ := at(c, "envFrom").([]any)
	for _, e := range from {
		got = append(got, "env "+at(e, "secretRef", "name").(string))
	}
	mounted := fmt.Sprint(at(c, "volumeMounts"))
	for _, v := range at(p, "spec", "volumes").([]any) {
		if name := at(v, "secret", "secretName"); name != nil && strings.Contains(mounted, fmt.Sprintf("mountPath:/run/secrets/%s name:%s ", name, at(v, "name"))) {
			got = append(got, "file "+name.(string))
		}
	}
	slices.Sort(got)
	return strings.Join(got, ", ")
}

// TestStreamIsAskedWhileItIsNotReady: one partition that stands still makes a pod not ready, and neither operators nor other teams' agents lose it for
// that. An intake that is not ready takes no deliveries.
func TestStreamIsAskedWhileItIsNotReady(t *testing.T) {
	t.Parallel()
	list := manifests(t, "full")
	for name, want := range map[string]any{"operator": true, "agents": true, "stream-billing-operator": true, "stream-billing-agents": true, "intake": nil} {
		s := find(list, "Service", "forebay-"+name)
		if got := at(s, "spec", "publishNotReadyAddresses"); s == nil || got != want {
			t.Errorf("the Service of %s publishes pods that are not ready: %v", name, got)
		}
	}
}

// TestBudgets: a budget of Kubernetes has one of the two; with both it is refused.
func TestBudgets(t *testing.T) {
	t.Parallel()
	for part, want := range map[string][2]any{"intake": {1, nil}, "stream": {nil, 1}, "stream-billing": {2, nil}} {
		b := find(manifests(t, "full"), "PodDisruptionBudget", "forebay-"+part)
		if got := [2]any{at(b, "spec", "maxUnavailable"), at(b, "spec", "minAvailable")}; got != want {
			t.Errorf("%s has maxUnavailable and minAvailable %v, want %v", part, got, want)
		}
	}
}

// TestScaling: the intake by processor, the stream by lag; a spool is a volume of a StatefulSet's own.
func TestScaling(t *testing.T) {
	t.Parallel()
	list := manifests(t, "full")
	if find(list, "StatefulSet", "forebay-intake") == nil || find(list, "Deployment", "forebay-intake") != nil {
		t.Error("an intake with a spool is no StatefulSet")
	}
	if h := find(list, "HorizontalPodAutoscaler", "forebay-intake"); at(h, "spec", "metrics", "resource", "name") != "cpu" || at(h, "spec", "scaleTargetRef", "kind") != "StatefulSet" {
		t.Errorf("the intake scales by %v", h)
	}
	if h := find(list, "HorizontalPodAutoscaler", "forebay-intake"); at(h, "spec", "behavior", "scaleDown", "selectPolicy") != "Disabled" {
		t.Error("a pod of the intake is taken away with what it has acknowledged on its volume")
	}
	s := find(list, "ScaledObject", "forebay-stream")
	if query := fmt.Sprint(at(s, "spec", "triggers", "metadata", "query")); query != `max(forebay_stream_lag_seconds{namespace="forebay",subscription!="forebay.billing"})` || at(s, "spec", "scaleTargetRef", "name") != "forebay-stream" {
		t.Errorf("the stream scales by %s", query)
	}
	for _, m := range list {
		if name := at(m, "metadata", "name"); name == "forebay-intake" && m["kind"] == "StatefulSet" || name == "forebay-stream" && m["kind"] == "Deployment" {
			if at(m, "spec", "replicas") != nil {
				t.Errorf("%s has replicas beside what scales it", at(m, "metadata", "name"))
			}
		}
	}
}

// end is an end of a connection.
type end struct {
	labels    map[string]string // of a pod; nil: none
	namespace string
	address   string
}

// selected reports whether a selector has the labels.
func selected(selector any, labels map[string]string) bool {
	want, _ := at(selector, "matchLabels").(object)
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// peers reports whether a list of peers has an end; a policy is of the namespace forebay.
func peers(list any, e end) bool {
	items, _ := list.([]any)
	return slices.ContainsFunc(items, func(p any) bool {
		peer := p.(object)
		if block, ok := peer["ipBlock"]; ok {
			inside := func(cidr any) bool {
				return netip.MustParsePrefix(cidr.(string)).Contains(netip.MustParseAddr(e.address))
			}
			except, _ := at(block, "except").([]any)
			return inside(at(block, "cidr")) && !slices.ContainsFunc(except, inside)
		}
		if e.labels == nil {
			return false
		}
		if space, ok := peer["namespaceSelector"]; ok {
			if !selected(space, map[string]string{"kubernetes.io/metadata.name": e.namespace}) {
				return false
			}
		} else if e.namespace != "forebay" {
			return false
		}
		return selected(peer["podSelector"], e.labels)
	})
}

// allowed reports whether the policies of the pods with labels let an end in at a port, or out to it; key is ingress or egress.
func allowed(list []object, key, peersKey string, labels map[string]string, e end, protocol string, port int) bool {
	isolated, ok := false, false
	for _, m := range list {
		if m["kind"] != "NetworkPolicy" || !selected(at(m, "spec", "podSelector"), labels) {
			continue
		}
		isolated = true
		rules, _ := at(m, "spec", key).([]any)
		for _, r := range rules {
			ports, _ := at(r, "ports").([]any)
			for _, p := range ports {
				ok = ok || at(p, "port") == port && at(p, "protocol") == protocol && peers(r.(object)[peersKey], e)
			}
		}
	}
	return !isolated || ok
}

// TestWhatPodsMayReach is the table of what each pod may reach, and who may reach it. What is not in it is refused.
func TestWhatPodsMayReach(t *testing.T) {
	t.Parallel()
	ends := map[string]end{
		"kafka":      {map[string]string{"strimzi.io/kind": "Kafka"}, "forebay", "10.0.0.1"},
		"postgres":   {map[string]string{"cnpg.io/podRole": "instance"}, "forebay", "10.0.0.2"},
		"dns":        {map[string]string{"k8s-app": "kube-dns"}, "kube-system", "10.0.0.3"},
		"monitoring": {map[string]string{"app": "prometheus"}, "monitoring", "10.0.0.4"},
		"agent":      {map[string]string{"app": "agent"}, "forebay", "10.0.0.5"},
		"proxy":      {map[string]string{"app": "proxy"}, "forebay", "10.0.0.6"},
		"redis":      {map[string]string{"app": "redis"}, "forebay", "10.0.0.7"},
		"stranger":   {map[string]string{"app": "x"}, "elsewhere", "10.0.0.8"},
		"internet":   {nil, "", "203.0.113.9"},
		"node":       {nil, "", "192.168.0.10"},
		"metadata":   {nil, "", "169.254.169.254"},
	}
	ports := []int{53, 443, 5432, 6379, 8000, 8080, 8091, 9090, 9091, 9092, 9093}
	for name, want := range map[string]map[string]string{
		"default": {
			"intake out": "dns:53 kafka:9092 kafka:9093", "topics out": "dns:53 kafka:9092 kafka:9093", "migrate out": "dns:53 postgres:5432",
			"stream out": "dns:53 internet:443 kafka:9092 kafka:9093 postgres:5432",
			"intake in":  "agent:8080 dns:8080 internet:8080 kafka:8080 metadata:8080 monitoring:8080 monitoring:9091 node:8080 postgres:8080 proxy:8080 redis:8080 stranger:8080",
			"stream in":  "monitoring:9091", "migrate in": "", "topics in": "",
		},
		"example": {
			"intake out": "dns:53 kafka:9092 kafka:9093", "topics out": "dns:53 kafka:9092 kafka:9093", "migrate out": "dns:53 postgres:5432",
			"stream out": "agent:8000 dns:53 kafka:9092 kafka:9093 postgres:5432",
			"intake in":  "agent:8080 dns:8080 internet:8080 kafka:8080 metadata:8080 monitoring:8080 monitoring:9091 node:8080 postgres:8080 proxy:8080 redis:8080 stranger:8080",
			"stream in":  "monitoring:9091", "migrate in": "", "topics in": "",
		},
		"full": {
			"intake out": "dns:53 kafka:9092 kafka:9093 redis:6379", "topics out": "dns:53 kafka:9092 kafka:9093", "migrate out": "dns:53 postgres:5432",
			"stream out": "dns:53 internet:443 kafka:9092 kafka:9093 postgres:5432",
			"intake in":  "agent:8080 dns:8080 internet:8080 kafka:8080 metadata:8080 monitoring:8080 monitoring:9091 node:8080 postgres:8080 proxy:8080 redis:8080 stranger:8080",
			"stream in":  "agent:8091 monitoring:9091 proxy:9090", "migrate in": "", "topics in": "",
			"stream-billing out": "dns:53 internet:443 kafka:9092 kafka:9093 postgres:5432", "stream-billing in": "agent:8091 monitoring:9091 proxy:9090",
		},
	} {
		list := manifests(t, name)
		all := pods(list)
		if 2*len(all) != len(want) {
			t.Errorf("%s: %d pods, want %d", name, len(all), len(want)/2)
		}
		for part, p := range all {
			labels := map[string]string{}
			for k, v := range at(p, "metadata", "labels").(object) {
				labels[k] = fmt.Sprint(v)
			}
			for way, key := range map[string][2]string{"out": {"egress", "to"}, "in": {"ingress", "from"}} {
				var got []string
				for who, e := range ends {
					for _, port := range ports {
						if allowed(list, key[0], key[1], labels, e, "TCP", port) {
							got = append(got, fmt.Sprintf("%s:%d", who, port))
						}
					}
				}
				slices.Sort(got)
				if text := strings.Join(got, " "); text != want[part+" "+way] {
					t.Errorf("%s: %s %s: %s\nwant %s", name, part, way, text, want[part+" "+way])
				}
			}
			if !allowed(list, "egress", "to", labels, ends["dns"], "UDP", 53) {
				t.Errorf("%s: %s may not look names up", name, part)
			}
		}
	}
}

// TestIntakeIsAskedWithoutTokens: where the operator listener wants tokens, which an intake has none of, the intake's own file has one on
// loopback that wants none: otherwise no pod could make an event of a quarantined delivery. All else is as in the other file.
func TestIntakeIsAskedWithoutTokens(t *testing.T) {
	t.Parallel()
	list := manifests(t, "full")
	has := map[string]string{"FOREBAY_POSTGRES_URL": "postgres://h/d", "AGENTS_SECRET": "0123456789abcdef0123456789abcdef", "TEAM_FOREBAY_GITHUB_SECRET": "0123456789abcdef"}
	loaded := map[string]*config.Config{}
	for _, part := range []string{"intake", "stream"} {
		c, err := config.Load(config.Options{Path: files(t, list, part), Roles: []config.Role{config.Role(part)}, Lookup: lookupIn(has)})
		if err != nil {
			t.Fatalf("%s: %v", part, err)
		}
		if c.Teams["forebay"] == nil { // whose file is not the main one
			t.Errorf("%s: there is no team forebay", part)
		}
		loaded[part] = c
	}
	intake, stream := loaded["intake"], loaded["stream"]
	if intake.Operator.HasTokens() || intake.Listen.Operator != "127.0.0.1:9090" {
		t.Errorf("the intake is asked at %s, with tokens: %t", intake.Listen.Operator, intake.Operator.HasTokens())
	}
	if !stream.Operator.HasTokens() || stream.Listen.Operator != "0.0.0.0:9090" {
		t.Errorf("the stream is asked at %s, with tokens: %t", stream.Listen.Operator, stream.Operator.HasTokens())
	}
	intake.Listen.Operator = stream.Listen.Operator
	if intake.Listen != stream.Listen || intake.Intake.StopDelay != stream.Intake.StopDelay || intake.Topics != stream.Topics ||
		intake.TeamsDir.Path != stream.TeamsDir.Path {
		t.Errorf("the intake's file has\n%+v\nand the other\n%+v", intake, stream)
	}
}

// TestEverySubscriptionIsRun: by the pods of its ledger and no others, each of which selects its own.
func TestEverySubscriptionIsRun(t *testing.T) {
	t.Parallel()
	list := manifests(t, "full")
	has := map[string]string{"FOREBAY_POSTGRES_URL": "postgres://h/d", "AGENTS_SECRET": "0123456789abcdef0123456789abcdef", "TEAM_FOREBAY_BILLING_URL": "postgres://u:pencil@billing.example.com/d?sslmode=verify-full"}
	ran := map[string]string{}
	for part, p := range pods(list) {
		args := at(p, "spec", "containers", "args").([]any)
		if !strings.HasPrefix(part, "stream") {
			continue
		}
		o := config.Options{Path: files(t, list, part), Roles: []config.Role{config.RoleStream}, Run: true, Lookup: lookupIn(has)}
		if n := slices.Index(args, any("--subscriptions")); n > 0 {
			o.Subscriptions = strings.Split(args[n+1].(string), ",")
		}
		c, err := config.Load(o)
		if err != nil {
			t.Fatalf("%s: %v", part, err)
		}
		for name := range c.Teams["forebay"].Subscriptions {
			if c.Runs("forebay", name) {
				ran[name] += part
			}
		}
		d := find(list, "Deployment", "forebay-"+part)
		if labels := at(d, "spec", "selector", "matchLabels", "app.kubernetes.io/component"); labels != part {
			t.Errorf("%s selects %v", part, labels)
		}
	}
	if want := map[string]string{"triage": "stream", "billing": "stream-billing"}; !maps.Equal(ran, want) {
		t.Errorf("subscriptions are run by %v, want %v", ran, want)
	}
	if n := at(find(list, "Deployment", "forebay-stream-billing"), "spec", "replicas"); n != 3 {
		t.Errorf("%v pods of billing", n)
	}
}

// TestPodsThatStopTakeDeliveries: the intake takes deliveries for a while after it is told to stop, within its drain and what Kubernetes grants.
func TestPodsThatStopTakeDeliveries(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"default", "example", "full"} {
		list := manifests(t, name)
		var file object
		text, _ := at(find(list, "ConfigMap", "forebay-config"), "data", "_main.yaml").(string)
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			t.Fatal(err)
		}
		pod := pods(list)["intake"]
		args := at(pod, "spec", "containers", "args").([]any)
		drain, err := time.ParseDuration(args[len(args)-1].(string))
		if err != nil {
			t.Fatal(err)
		}
		delay, _ := time.ParseDuration(fmt.Sprint(at(file, "intake", "stop_delay"))) // 0 where there is none
		seconds := at(pod, "spec", "terminationGracePeriodSeconds").(int)
		grace := time.Duration(seconds) * time.Second
		if delay < 10*time.Second || delay > drain/2 || drain >= grace {
			t.Errorf("%s: deliveries are taken for %s of a drain of %s, and Kubernetes kills after %s", name, delay, drain, grace)
		}
	}
}

// lookupIn finds variables in has alone.
func lookupIn(has map[string]string) func(name string) (string, bool) {
	return func(name string) (string, bool) { value, ok := has[name]; return value, ok }
}

// files writes what the pods of a part have of the ConfigMap, and returns the path of the main file.
func files(t *testing.T, list []object, part string) string {
	t.Helper()
	dir := t.TempDir()
	ca, err := filepath.Abs("../config/testdata/reference/kafka/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	texts := at(find(list, "ConfigMap", "forebay-config"), "data").(object)
	if err := os.Mkdir(filepath.Join(dir, "teams.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, item := range at(pods(list)[part], "spec", "volumes", "configMap", "items").([]any) {
		text := strings.ReplaceAll(texts[at(item, "key").(string)].(string), "/run/secrets/kafka-cluster-ca-cert/ca.crt", ca)
		if err := os.WriteFile(filepath.Join(dir, at(item, "path").(string)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "forebay.yaml")
}

// TestNotes: what NOTES.txt has people run in a pod can be run with the file and the secrets of that pod.
func TestNotes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "deploy/helm/forebay/templates/NOTES.txt"))
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]map[string]string{
		"intake": {"TEAM_ACME_ORDERS_SECRET": "0123456789abcdef", "KAFKA_PASSWORD": "pencil"},
		"stream": {"FOREBAY_POSTGRES_URL": "postgres://h/d", "KAFKA_PASSWORD": "pencil",
			"TEAM_ACME_AGENT_SECRET": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"},
	}
	path, asked := files(t, manifests(t, "example"), "stream"), map[string]bool{}
	doctors := regexp.MustCompile(`exec \S+ ?.*-(intake|stream) -- /usr/local/bin/forebay doctor(?: --roles (\S+))?`)
	for _, line := range doctors.FindAllStringSubmatch(string(text), -1) {
		has := secrets[line[1]]
		asked[line[1]] = true
		var roles []config.Role
		for role := range strings.FieldsFuncSeq(line[2], func(r rune) bool { return r == ',' }) {
			roles = append(roles, config.Role(role))
		}
		_, err := config.Load(config.Options{Path: path, Roles: roles, Look: len(roles) == 0, Lookup: lookupIn(has)})
		if err != nil {
			t.Errorf("%q: %v", line[0], err)
		}
	}
	if !asked["intake"] || !asked["stream"] {
		t.Errorf("NOTES.txt asks %v", asked)
	}
}

// TestExampleIsAConfiguration: what the chart makes of the example's values is a file that Forebay takes, and the users of Strimzi are those that it needs.
func TestExampleIsAConfiguration(t *testing.T) {
	t.Parallel()
	list := manifests(t, "example")
	texts := at(find(list, "ConfigMap", "forebay-config"), "data").(object)
	if hooks := at(find(list, "ConfigMap", "forebay-hooks"), "data").(object); fmt.Sprint(hooks) != fmt.Sprint(texts) {
		t.Error("the hooks have another file than the roles")
	}
	path := files(t, list, "stream")
	secrets := map[string]string{"FOREBAY_POSTGRES_URL": "postgres://h/d", "TEAM_ACME_AGENT_SECRET": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz",
		"TEAM_ACME_ORDERS_SECRET": "0123456789abcdef", "KAFKA_PASSWORD": "pencil"}
	for _, roles := range [][]config.Role{{config.RoleIntake}, {config.RoleMigrate}, {config.RoleTopics}, {config.RoleStream}} {
		c, err := config.Load(config.Options{Path: path, Roles: roles, Lookup: lookupIn(secrets)})
		if err != nil {
			t.Errorf("role %v: %v", roles, err)
			continue
		}
		if c.Teams["acme"] == nil || c.Teams["acme"].Sources["orders"] == nil {
			t.Error("the team's file is not in it")
		}
	}
	c, err := config.Load(config.Options{Path: path, Roles: []config.Role{config.RoleACLs}})
	if err != nil {
		t.Fatal(err)
	}
	users := map[rights.Role]string{rights.Intake: "User:forebay-intake", rights.Stream: "User:forebay-stream", rights.Admin: "User:forebay-admin"}
	want := rights.Strimzi(rights.Of(c, []rights.Role{rights.Intake, rights.Stream, rights.Admin}, func(role rights.Role, _ string) string { return users[role] }), "kafka")
	have, err := os.ReadFile(filepath.Join(root, "deploy/helm/examples/strimzi-users.yaml"))
	if err != nil || string(have) != want {
		t.Errorf("strimzi-users.yaml is not what forebay acls export --strimzi prints (%v); it is:\n%s", err, want)
	}
}

// TestAdminPod: the pod of the examples for an admin's commands has the file, the certificates and the image of the example's pods, and what its
// command reads of the file.
func TestAdminPod(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "deploy/helm/examples/admin.yaml"))
	var pod object
	if err == nil {
		err = yaml.Unmarshal(text, &pod)
	}
	if err != nil {
		t.Fatal(err)
	}
	list := manifests(t, "example")
	stream, admin := pods(list)["stream"], at(pod, "spec", "containers")
	for _, key := range []string{"image", "volumeMounts"} {
		if got, want := fmt.Sprint(at(admin, key)), fmt.Sprint(at(stream, "spec", "containers", key)); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	if got, want := fmt.Sprint(at(pod, "spec", "volumes")), fmt.Sprint(at(stream, "spec", "volumes")); got != want {
		t.Errorf("volumes are %s, want %s", got, want)
	}
	if got, want := secretsOf(pod), "env forebay-admin, env forebay-db-app, file kafka-cluster-ca-cert"; got != want {
		t.Errorf("it has %s, want %s", got, want)
	}
	_, err = config.Load(config.Options{Path: files(t, list, "stream"), Roles: []config.Role{config.RoleTopics, config.RoleMigrate},
		Lookup: lookupIn(map[string]string{"FOREBAY_POSTGRES_URL": "postgres://h/d", "KAFKA_PASSWORD": "pencil"})})
	if err != nil {
		t.Error(err)
	}
}

// TestVersions: the chart is of the newest version in CHANGELOG.
func TestVersions(t *testing.T) {
	t.Parallel()
	log, err := os.Open(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	newest := ""
	for s := bufio.NewScanner(log); s.Scan() && newest == ""; {
		if rest, ok := strings.CutPrefix(s.Text(), "## ["); ok && rest[0] != 'U' {
			newest, _, _ = strings.Cut(rest, "]")
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy/helm/forebay/Chart.yaml"))
	var chart object
	if err == nil {
		err = yaml.Unmarshal(text, &chart)
	}
	if err != nil || newest == "" || chart["appVersion"] != newest {
		t.Errorf("CHANGELOG has %q, the chart %v; %v", newest, chart["appVersion"], err)
	}
}
