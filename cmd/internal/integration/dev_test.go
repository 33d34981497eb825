package integration

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas/short"
)

// deployDev is a deployment without servers: forebay dev brings its own.
func deployDev(t *testing.T) *deployment {
	t.Helper()
	short.NeedsServer(t, "forebay dev")
	r := &deployment{t: t, team: "demo", dir: rig.OpenDir(t), agent: newAgent(t, 2*time.Millisecond)}
	// As root, Postgres would go to /var/lib/forebay and stay there: its user cannot enter what dev makes for itself.
	if err := os.Mkdir(filepath.Join(r.dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	return r
}

// dev starts `forebay dev` with a data directory of the test and waits until it says that it serves.
func (r *deployment) dev(args ...string) *process {
	r.t.Helper()
	return r.devAt(append([]string{"--data", filepath.Join(r.dir, "data")}, args...)...)
}

// devAt starts `forebay dev` and waits until it says that it serves.
func (r *deployment) devAt(args ...string) *process {
	r.t.Helper()
	p := r.launch(append([]string{"dev"}, args...)...)
	// Its Postgres outlives a kill -9 on purpose; a clean stop takes it along, whatever became of the test.
	r.t.Cleanup(func() {
		select {
		case <-p.gone:
		default:
			p.stop()
		}
	})
	if !rig.Until(2*time.Minute, func() bool {
		select {
		case <-p.gone:
			r.t.Fatalf("forebay dev ended: %s", p.output())
		default:
		}
		return strings.Contains(p.output(), "Forebay serves on")
	}) {
		r.t.Fatalf("forebay dev does not serve: %s", p.output())
	}
	return p
}

// address finds where the parts of a written sample configuration listen.
var address = regexp.MustCompile(`(?m)^ +(?:(intake|operator): |url: http://)(127\.0\.0\.1:\d+)(?:/sample-agent +#.*)?$`)

// TestDevFirstAndSecondStart shows what a newcomer sees: a scene at the first start, the same state at the second.
func TestDevFirstAndSecondStart(t *testing.T) {
	t.Parallel()
	r := deployDev(t)
	p := r.dev()
	first := p.output()
	if !containsAll(first, "The scene: 40 deliveries", "received", "in quarantine", "actions run", "ENTITY") {
		t.Errorf("the first start does not show its scene:\n%s", first)
	}
	t.Run("in the console", func(t *testing.T) { seeScene(t, first) })
	for _, name := range []string{"inbox list", "quarantine list", "subscriptions list", "attention", "send demo/github"} { // as they are printed
		line := regexp.MustCompile(`(?m)^  (.* ` + name + `.*)$`).FindStringSubmatch(first)
		if line == nil {
			t.Fatalf("how to look with %s is not told:\n%s", name, first)
		}
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", line[1]).CombinedOutput(); err != nil || len(out) == 0 {
			t.Errorf("%s: %v: %s", line[1], err, out)
		}
	}
	file := filepath.Join(r.dir, "data", "forebay.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	for _, m := range address.FindAllStringSubmatch(string(text), -1) {
		at[cmp.Or(m[1], "agent")] = m[2]
	}
	p.operator = at["operator"]
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^bin/forebay ([^#\n]*[^#\n ])`).FindAllStringSubmatch(string(readme), -1)
	for _, line := range lines {
		if args := strings.Fields(strings.ReplaceAll(line[1], ".forebay/", filepath.Dir(file)+"/")); !strings.HasSuffix(line[1], "/ID") {
			if _, err := r.try(p.operator, args...); err != nil {
				t.Errorf("README: %s: %v", line[1], err)
			}
		}
	}
	if len(lines) < 5 {
		t.Errorf("commands in README: %q", lines)
	}
	waitItems(t, r, p, 41, "--team", "demo")
	p.stop()
	for _, look := range []string{"check", "show"} { // the file is a good one as it is
		if out, err := r.try(p.operator, "config", look, "-c", file); err != nil {
			t.Errorf("config %s: %v %s", look, err, out)
		}
	}
	if _, err := r.try(p.operator, "serve", "-c", file); err == nil || !strings.Contains(err.Error(), "kafka.embedded: is for `forebay dev` alone: write kafka.brokers instead") {
		t.Errorf("serve takes the file of dev: %v", err)
	}

	p = r.devAt("-c", file) // by its file: it is the sample, with its state and its agent
	p.operator = at["operator"]
	if strings.Contains(p.output(), "The scene:") {
		t.Error("the second start plays the scene again")
	}
	if out, err := r.try(p.operator, "send", "demo/github", "--sample", "github/check_run.completed", "-c", file); err != nil {
		t.Fatalf("send: %s %v", out, err)
	}
	waitItems(t, r, p, 42, "--team", "demo")
	waitItems(t, r, p, 1, "--team", "demo", "--type", "com.github.push", "--status", "done")
	waitItems(t, r, p, 1, "--team", "demo", "--type", "com.github.check_run.completed", "--status", "done")
	if n := called(t, "http://"+at["agent"]); n != 1 {
		t.Errorf("the agent of the second start was called %d times, want once, for what was sent to it", n)
	}
}

// TestDevTellsWhatHappens: forebay dev with a file of the user's own says where everything is, keeps its state beside that file, and has a
// line for each delivery that it refuses, each event that waits and each call of the agent. A file that has changed is read again.
func TestDevTellsWhatHappens(t *testing.T) {
	t.Parallel()
	r := deployDev(t)
	r.write("", options{})
	state := filepath.Join(r.dir, ".forebay-forebay")
	if err := os.Mkdir(state, 0o755); err != nil { // as in deployDev
		t.Fatal(err)
	}
	p := r.devAt("-c", r.config)
	for _, line := range []string{"webhooks  " + p.intake + "/v1/in/demo/github", p.intake + "/v1/in/demo/orders", "console   http://" + p.operator + "/", "operator  http://" + p.operator, "broker    127.0.0.1:",
		"postgres  127.0.0.1:", "file      " + r.config, "state     " + state} {
		if !strings.Contains(p.output(), "  "+line+"\n") && !regexp.MustCompile(`(?m)^  `+regexp.QuoteMeta(line)+`\d+$`).MatchString(p.output()) {
			t.Errorf("it does not say %q:\n%s", line, p.output())
		}
	}
	if _, err := os.Stat(filepath.Join(state, "broker")); err != nil {
		t.Error(err)
	}
	said := func(line string) {
		t.Helper()
		told := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d ` + line)
		until(t, "it says "+line, func() bool { return told.MatchString(p.output()) })
	}
	forged := order("o-1", 2).request(t.Context(), p.intake, r.team)
	forged.Header.Set("X-Signature", "sha256="+sign("another secret", order("o-1", 2).body))
	if status := do(t, forged); status != http.StatusUnauthorized {
		t.Errorf("forged, and answered %d", status)
	}
	said("refused   demo/orders: ")
	r.intake.Store(p)
	r.deliver(order("o-1", 2))
	said("waits     demo.fulfil demo/orders o-1: ")
	r.deliver(order("o-1", 1))
	said("done      demo.fulfil demo/orders o-1 -> demo/shop 200 in ")
	if strings.Contains(p.output(), "\x1b") {
		t.Error("there are colours in a file")
	}
	r.reloads(p)
}

// reloads adds a source to the file of a forebay dev that runs: its topic is made and its deliveries are taken. A file that is wrong changes
// nothing.
func (r *deployment) reloads(p *process) {
	r.t.Helper()
	body := r.file(`{"id":"1","type":"t"}`)
	r.edit("    sources:\n", "    sources:\n      added: {preset: generic, secrets: [of-the-added-one], verify: {signature_header: X-Signature}, event: {id: /id, type: /type, entity: []}}\n")
	send := func() error {
		_, err := r.try(p.operator, "send", "demo/added", "-c", r.config, "--url", p.intake, "--file", body)
		return err
	}
	until(r.t, "the reload is told", func() bool { return strings.Contains(p.output(), "was read again and is in force") })
	until(r.t, "the added source takes something", func() bool { return send() == nil })
	good, err := os.ReadFile(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	r.put(filepath.Base(r.config), string(good)+"nonsense: true\n")
	until(r.t, "the broken file is told", func() bool { return strings.Contains(p.output(), "nonsense: unknown key") })
	main := r.config
	refused := func(want string) func() bool {
		return func() bool {
			out, err := r.try(p.operator, "attention", "--kind", "reload_refused", "-o", "id")
			return err == nil && string(out) == want
		}
	}
	until(r.t, "the broken file is in attention", refused(filepath.Base(main)+"\n"))
	r.put("good.yaml", string(good)) // for send
	r.config = filepath.Join(r.dir, "good.yaml")
	if err := send(); err != nil {
		r.t.Errorf("a broken file ended the source: %v", err)
	}
	r.put(filepath.Base(main), string(good))
	until(r.t, "the mended file is out of attention", refused(""))
}

// TestDevKill9 kills forebay dev in the middle of a load, twice: with a file of the user's own that leaves out Kafka and
// Postgres, nothing that was acknowledged is lost.
func TestDevKill9(t *testing.T) {
	t.Parallel()
	r := deployDev(t)
	r.write("", options{})
	start := func() *process {
		p := r.dev("-c", r.config)
		r.intake.Store(p)
		return p
	}
	p := start()
	if strings.Contains(p.output(), "The scene:") {
		t.Error("a file of one's own gets no scene")
	}
	r.dbURL = r.devLedger()
	underLoad(t, r, func() (faults []fault) {
		for range 2 {
			at := time.Now()
			p.kill()
			r.look()
			p = start()
			faults = append(faults, r.faultSince(p, at))
			r.agent.waitActed(t, r.agent.acted()+40, time.Minute)
		}
		return faults
	})
}

// TestDevGrownTopic: a topic of forebay dev is grown, and the command that `attention` prints leads to its end: it shows the plan while dev
// runs, and once that is stopped hands over, on dev's own data. Then the file is changed as it says, and what was open goes on.
func TestDevGrownTopic(t *testing.T) {
	t.Parallel()
	r := deployDev(t)
	r.write("", options{gap: "{wait: 10m, then: skip}"})
	p := r.dev("-c", r.config)
	send := func(rev int) {
		t.Helper()
		body := r.file(fmt.Sprintf(`{"type":"order.changed","order":{"id":"o-1","rev":%d}}`, rev))
		if out, err := r.try(p.operator, "send", "demo/orders", "-c", r.config, "--url", p.intake, "--file", body, "--header", fmt.Sprintf("X-Event-Id=%d", rev)); err != nil {
			t.Fatalf("%s %v", out, err)
		}
	}
	send(1)
	send(3) // waits for 2
	waitItems(t, r, p, 1, "--subscription", "fulfil", "--decision", "buffered")
	broker := regexp.MustCompile(`(?m)^  broker +(\S+)$`).FindStringSubmatch(p.output())
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).UpdatePartitions(t.Context(), 8, "events.demo.orders"); err != nil {
		t.Fatal(err)
	}
	rows := r.waitAttention(p, map[string]int{"stopped_partition": 6, "unread_partition": 2})
	command := rows["stopped_partition"][0].Command
	if want := "forebay topics rekey events.demo.orders --partitions 8 -c " + r.config + " --data " + filepath.Join(r.dir, "data"); command != want {
		t.Errorf("%q, want %q", command, want)
	}
	args := strings.Fields(strings.TrimPrefix(command, "forebay "))
	if out, err := r.try(p.operator, args...); err != nil || !containsAll(string(out), "stop the processes with the stream role: demo.fulfil (1 members)", "0 records of events.demo.orders (8 partitions) that are not read yet") {
		t.Errorf("the plan while dev runs: %s %v", out, err)
	}
	if _, err := r.try(p.operator, append(args, "--run")...); err == nil || !strings.Contains(err.Error(), "exit status 6") {
		t.Errorf("run while dev runs: %v", err)
	}
	p.stop()
	if out, err := r.try(p.operator, append(args, "--run")...); err != nil || !containsAll(string(out), "0 that were not read yet", "1 version lines and 1 events that wait", "topic: events.demo.orders.8, topics: {partitions: 8}") {
		t.Fatalf("run: %s %v", out, err)
	}
	r.edit("      orders:\n", "      orders:\n        topic: events.demo.orders.8\n        topics: {partitions: 8}\n")
	p = r.dev("-c", r.config)
	send(2)
	waitItems(t, r, p, 3, "--subscription", "fulfil", "--status", "done")
}

// TestDemo shows that forebay demo ends well by itself and leaves nothing behind. On a machine so busy that the deliveries took as long as its
// gap is waited for, it says so.
func TestDemo(t *testing.T) {
	t.Parallel()
	short.NeedsServer(t, "forebay demo")
	dir := rig.OpenDir(t)
	cmd := exec.CommandContext(t.Context(), forebay, "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if well, busy := strings.Contains(string(out), "The outcome is what the model says"), strings.Contains(string(out), "when this machine is less busy"); (err != nil || !well) && !busy {
		t.Errorf("forebay demo: %v\n%s", err, out)
	}
	requireNothingLeft(t, dir)
}

// TestDemoWhoseReaderEnds: forebay demo | head -0. It ends in good order, and leaves neither its Postgres nor its files.
func TestDemoWhoseReaderEnds(t *testing.T) {
	t.Parallel()
	short.NeedsServer(t, "forebay demo")
	dir := rig.OpenDir(t)
	cmd := exec.CommandContext(t.Context(), forebay, "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(errs.String(), "ended, because what has read the output is gone") {
		t.Errorf("exit code %d (%v):\n%s", cmd.ProcessState.ExitCode(), err, errs.String())
	}
	requireNothingLeft(t, dir)
}

// requireNothingLeft fails the test if a demo has left files.
func requireNothingLeft(t *testing.T, dir string) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(dir, "forebay-demo-*")); err != nil || len(left) != 0 {
		t.Errorf("forebay demo leaves %v (%v)", left, err)
	}
}

// TestDemoThatIsEnded: a demo that has shown nothing says so, and leaves nothing, in whatever way it was ended.
func TestDemoThatIsEnded(t *testing.T) {
	t.Parallel()
	short.NeedsServer(t, "forebay demo")
	for name, tt := range map[string]struct {
		signal os.Signal
		code   int
	}{"Ctrl-C": {os.Interrupt, 130}, "kill -9": {os.Kill, -1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := rig.OpenDir(t)
			cmd := exec.CommandContext(t.Context(), forebay, "demo")
			cmd.Env = append(os.Environ(), "TMPDIR="+dir)
			out, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			data := ""
			for data == "" && lines.Scan() {
				if text := lines.Text(); strings.HasPrefix(text, "postgres: ") {
					data = text[strings.LastIndex(text, " in ")+len(" in "):]
				}
			}
			cmd.Process.Signal(tt.signal)
			for lines.Scan() { // to the end, as Wait wants it
			}
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != tt.code {
				t.Errorf("exit code %d, want %d (%v)", cmd.ProcessState.ExitCode(), tt.code, err)
			}
			var left []string
			if !rig.Until(30*time.Second, func() bool {
				if left, err = filepath.Glob(filepath.Join(dir, "forebay-demo-*")); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(data); err == nil { // as root it lies elsewhere
					left = append(left, data)
				}
				return len(left) == 0
			}) {
				t.Fatalf("forebay demo leaves %v", left)
			}
		})
	}
}

// called is how often the sample agent was called.
func called(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Get(url + "/calls")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var page struct{ Items []any }
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	return len(page.Items)
}

// devLedger is where forebay dev's own Postgres is.
func (r *deployment) devLedger() string {
	r.t.Helper()
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(r.dir, "data", "postgres", name))
		if err != nil {
			r.t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	return "postgres://forebay:" + read("password") + "@127.0.0.1:" + read("port") + "/forebay?sslmode=disable"
}
