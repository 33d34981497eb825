package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// block is a fenced block of a page: what kind it is of, and its text.
type block struct{ kind, text string }

var fenced = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

func blocksOf(t *testing.T, page string) (list []block) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fenced.FindAllStringSubmatch(string(text), -1) {
		list = append(list, block{m[1], m[2]})
	}
	return list
}

// tutorial is a page that is run in a directory.
type tutorial struct {
	*deployment
	p *process // once it says serve
}

// run runs a command of the page. What the page lets listen at the usual addresses does so at free ones.
func (r *tutorial) run(command string) (out string, code int) {
	r.t.Helper()
	args := strings.Fields(command)[1:]
	if args[0] == "serve" {
		args[2] = filepath.Join(r.dir, args[2])
		r.p = r.launch(args...)
		r.intake.Store(r.p)
		r.p.waitReady(60 * time.Second)
		return "", 0
	}
	operator := "127.0.0.1:0"
	if r.p != nil {
		operator = r.p.operator
	}
	cmd := exec.CommandContext(r.t.Context(), forebay, args...)
	cmd.Dir, cmd.Env = r.dir, r.env("127.0.0.1:0", operator)
	text, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(text), exit.ExitCode()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text), 0
}

// write writes a file of the page, with the addresses of this test.
func (r *tutorial) write(b block) (name string) {
	r.t.Helper()
	first, text, _ := strings.Cut(b.text, "\n")
	name = strings.TrimPrefix(first, "# ")
	text = first + "\n" + strings.NewReplacer("127.0.0.1:9092", r.broker.Bootstrap(), "networks: [10.2.0.0/16]", "networks: [127.0.0.0/8]", "url: https://risk.example.com/events", "url: "+r.agent.URL+"/risk\n        allow_networks: [127.0.0.0/8]").Replace(text)
	if name == "forebay.yaml" {
		text += "listen: {intake: \"${env:INTAKE}\", operator: \"${env:OPERATOR}\"}\n"
	}
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return name
}

// replace changes a file of the page, and returns what it was.
func (r *tutorial) replace(name, old, new string) (was string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), old) {
		r.t.Fatalf("%s has no %q: %v", name, old, err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// TestSubscribeInFiveMinutes runs deploy/docs/SUBSCRIBE.md: its files, its commands in their order, its refusals; then a delivery to acme
// reaches payments.
func TestSubscribeInFiveMinutes(t *testing.T) {
	t.Parallel()
	r := &tutorial{deployment: &deployment{t: t, team: "acme", broker: rig.Fake(t), dbURL: rig.Database(t), dir: t.TempDir(), agent: newAgent(t, 0)}}
	r.variables = []string{"TEAM_ACME_ORDERS_SECRET=" + ordersSecret, "TEAM_PAYMENTS_RISK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	r.sender = newSender(t, "acme", func() string { return r.intake.Load().intake })
	blocks := blocksOf(t, "../../../deploy/docs/SUBSCRIBE.md")
	for _, b := range blocks { // the files as they are in the end: what the page has later is there before it is asked for
		if b.kind == "yaml" {
			r.write(b)
		}
	}
	r.refusals(blocks)
	asked, commands := false, 0
	for _, b := range blocks {
		for line := range strings.Lines(b.text) {
			if b.kind != "sh" {
				continue
			}
			commands++
			if out, code := r.run(line); code != 0 {
				t.Fatalf("%s ends with %d: %s", line, code, out)
			}
			if r.p != nil && !asked {
				asked = true
				if err := r.sender.load(t.Context(), orders("o", 5), 5, 0); err != nil {
					t.Fatal(err)
				}
				r.agent.waitActed(t, 5, time.Minute)
			}
		}
	}
	if commands < 10 || !asked {
		t.Fatalf("the page has %d commands", commands)
	}
	for _, c := range r.agent.snapshot() {
		if c.path != "/risk" || c.source != "/acme/orders" {
			t.Errorf("called at %s for an event of %s", c.path, c.source)
		}
	}
	if out, _ := r.run("forebay inbox list --team payments --source acme/orders -o id"); strings.Count(out, "payments/orders/%2Facme%2Forders/") != 5 {
		t.Errorf("the inbox has %s", out)
	}
}

// refusals checks what the page says is refused: without the share, and with another team's secret.
func (r *tutorial) refusals(blocks []block) {
	r.t.Helper()
	tried := 0
	for _, b := range blocks {
		var name, old, instead string
		switch b.kind {
		case "refused":
			name, old = "teams/acme.yaml", "        share: [payments]\n"
		case "stolen":
			name, old, instead = "teams/payments.yaml", "${env:TEAM_PAYMENTS_RISK_SECRET}", "${env:TEAM_ACME_ORDERS_SECRET}"
		default:
			continue
		}
		tried++
		was := r.replace(name, old, instead)
		out, code := r.run("forebay config check -c forebay.yaml")
		// The test's file has a line more than the page's: where the destination may call.
		want := strings.Replace(strings.TrimSpace(b.text), "payments.yaml:13:", "payments.yaml:14:", 1)
		if code != 5 || !strings.Contains(out, want) {
			r.t.Errorf("the page says\n%s\nand config check ends with %d:\n%s", want, code, out)
		}
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(was), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	if tried != 2 {
		r.t.Errorf("the page has %d refusals, want 2", tried)
	}
}
