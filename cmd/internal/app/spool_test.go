package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// Deliveries of a source that wants it are answered 202 while the broker takes nothing, and the process says so wherever one looks. What cannot
// become an event is kept likewise. Another source is refused as ever. All of it is with the broker as soon as that answers.
func TestSpool(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text = strings.Replace(r.text, "listen: {", "intake: {spool: {dir: "+t.TempDir()+"}}\nlisten: {", 1)
	r.text = strings.Replace(r.text, "preset: generic", "preset: generic\n        deadline: 1s\n        on_broker_outage: spool", 1)
	r.text = strings.Replace(r.text, "preset: github,", "preset: github, deadline: 1s,", 1)
	p := r.run(config.RoleIntake)
	p.accepted("orders", "orders-secret", order("x", 1))
	if rows := p.waiting(api.KindSpooling); len(rows) != 0 {
		t.Errorf("while the broker answers: %+v", rows)
	}
	held := r.hold()
	for rev := 2; rev < 6; rev++ {
		p.accepted("orders", "orders-secret", order("x", rev))
	}
	unusable := order("x", 6)
	unusable.Body = []byte("{}")
	p.accepted("orders", "orders-secret", unusable)
	if _, d := issue(1, 1); p.send("github", "first-secret", d) != http.StatusServiceUnavailable {
		t.Error("a source that keeps nothing on disk was not answered 503")
	}
	rows := p.waiting(api.KindSpooling)
	if len(rows) != 1 || rows[0].ID != "acme/orders" || rows[0].Events != 5 || rows[0].Since == nil || rows[0].Reason != "" {
		t.Errorf("%+v", rows)
	}
	if n, _ := counted(t, p.app.registry, "forebay_spool_records", map[string]string{"team": "acme", "source": "orders"}); n != 5 {
		t.Errorf("%v records", n)
	}
	if n, _ := counted(t, p.app.registry, "forebay_attention_waiting", map[string]string{"kind": "spooling", "of": "acme/orders"}); n != 1 {
		t.Errorf("%v wait", n)
	}
	if n, _ := counted(t, p.app.registry, "forebay_ingest_deliveries_total", map[string]string{"outcome": "accepted", "reason": "spooled"}); n != 4 {
		t.Errorf("%v were accepted on disk", n)
	}
	if status, body := p.readyz(); status != http.StatusOK || !strings.Contains(body, "5 deliveries (") {
		t.Errorf("%d %s", status, body)
	}

	other := r.app(config.RoleIntake)
	if err := other.Start(); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("another process with the directory: %v", err)
	}
	other.intake.close(t.Context())

	close(held)
	p.metric("forebay_spool_size_bytes", 0)
	p.accepted("orders", "orders-secret", order("x", 7))
	if rows := p.waiting(api.KindSpooling); len(rows) != 0 {
		t.Errorf("when it is over: %+v", rows)
	}
	if _, body := p.readyz(); strings.Contains(body, "wait on this disk") {
		t.Error(body)
	}
	p.clean()
}

// What is on disk is not known to the first filter, as only the brokers' ack is an end of it: its repeat is given to the log.
func TestSpoolBeforeFirstFilter(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "redis") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	startRedis(t, socket)
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text = strings.Replace(r.text, "listen: {", "intake: {spool: {dir: "+t.TempDir()+"}}\non_broker_outage: spool\nlisten: {", 1)
	r.text = strings.Replace(r.text, "preset: generic", "preset: generic\n        deadline: 1s\n        first_filter: {redis: {url: 'unix://"+socket+"'}}", 1)
	p := r.run(config.RoleIntake)
	hits := func() float64 {
		n, _ := counted(t, p.app.registry, "forebay_ingest_first_filter_total", map[string]string{"result": "hit"})
		return n
	}
	if !rig.Until(time.Minute, func() bool { // the filter is connected, and knows the topic
		p.accepted("orders", "orders-secret", order("x", 1))
		return hits() > 0
	}) {
		t.Fatal("a repeat is never answered by the filter")
	}
	held := r.hold()
	p.accepted("orders", "orders-secret", order("y", 1))
	if rows := p.waiting(api.KindSpooling); len(rows) != 1 {
		t.Errorf("%+v", rows)
	}
	close(held)
	p.metric("forebay_spool_size_bytes", 0)
	before := hits()
	p.accepted("orders", "orders-secret", order("y", 1))
	if hits() != before {
		t.Error("the filter knows what it never saw acknowledged")
	}
	p.clean()
}

// Of a process that has subscriptions, too, the intake is ready without a broker, and they are not.
func TestSpoolBesideSubscriptions(t *testing.T) {
	t.Parallel()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {url: \"postgres://127.0.0.1:1/none\"}", "http://127.0.0.1:1")}
	r.text = strings.Replace(r.text, "listen: {", "intake: {spool: {dir: "+t.TempDir()+"}}\non_broker_outage: spool\nlisten: {", 1)
	p := r.start(config.RoleIntake, config.RoleStream)
	p.accepted("orders", "orders-secret", order("x", 1))
	var said api.Readiness
	if !rig.Until(time.Minute, func() bool {
		_, body := p.readyz()
		said = api.Readiness{}
		return json.Unmarshal([]byte(body), &said) == nil && said.Roles["intake"]
	}) || said.Roles["stream"] {
		t.Errorf("%+v", said)
	}
	p.end(nil)
}

// An intake that starts while no broker answers takes deliveries, and is ready, until its disk takes no more. They are with the broker before what
// comes once that is there.
func TestSpoolBeforeTheBroker(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	dir := t.TempDir()
	r.text = strings.Replace(r.text, "listen: {", "intake: {spool: {dir: "+dir+", max_size: 16MiB}}\non_broker_outage: spool\nlisten: {", 1)
	there := r.text
	r.text = strings.Replace(there, r.cluster.ListenAddrs()[0], "127.0.0.1:1", 1)
	p := r.run(config.RoleIntake)
	for rev := range 3 {
		p.accepted("orders", "orders-secret", order("x", rev+1))
	}
	large := func(rev int) int {
		d := order("y", rev)
		d.Body = append(d.Body, make([]byte, 900<<10)...)
		for i := len(d.Body) - 900<<10; i < len(d.Body); i++ {
			d.Body[i] = ' '
		}
		return p.send("orders", "orders-secret", d)
	}
	full := 0
	for rev := 1; rev < 30 && full == 0; rev++ {
		if got := large(rev); got != http.StatusAccepted {
			full = got
		}
	}
	if full != http.StatusServiceUnavailable {
		t.Errorf("a full spool answered %d", full)
	}
	if rows := p.waiting(api.KindSpooling); len(rows) != 1 || rows[0].Reason != "full" {
		t.Errorf("%+v", rows)
	}
	if status, body := p.readyz(); status != http.StatusServiceUnavailable || !strings.Contains(body, "the disk takes no more") {
		t.Errorf("%d %s", status, body)
	}
	p.clean()
	if files, _ := filepath.Glob(filepath.Join(dir, "acme.orders", "*")); len(files) == 0 {
		t.Fatal("nothing is on disk")
	}
	r.text = there
	p = r.run(config.RoleIntake)
	p.metric("forebay_spool_size_bytes", 0)
	p.accepted("orders", "orders-secret", order("x", 4))
	if files, _ := os.ReadDir(filepath.Join(dir, "acme.orders")); len(files) > 0 {
		t.Errorf("%v are left", files)
	}
	p.clean()
}

// What is on disk becomes the event that it was acknowledged as, though the file of the next process lacks its source, or has a lower max_body.
func TestSpoolOfAnotherFile(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text = strings.Replace(r.text, "listen: {", "intake: {spool: {dir: "+t.TempDir()+"}}\non_broker_outage: spool\nlisten: {", 1)
	start, _, _ := strings.Cut(r.text, "    subscriptions:")
	r.text = start
	for _, then := range []string{start[:strings.Index(start, "      orders:")], strings.Replace(start, "preset: generic", "preset: generic\n        max_body: 1KiB", 1)} {
		there := r.cluster.ListenAddrs()[0]
		r.text = strings.Replace(start, there, "127.0.0.1:1", 1)
		p := r.run(config.RoleIntake)
		d := order("x", 1)
		d.Body = append(d.Body, bytes.Repeat([]byte(" "), 200<<10)...)
		p.accepted("orders", "orders-secret", d)
		p.clean()
		before := len(r.all(ordersTopic))
		r.text = then
		p = r.run(config.RoleIntake)
		p.metric("forebay_spool_size_bytes", 0)
		p.clean()
		if events := r.all(ordersTopic); len(events) != before+1 || !bytes.Equal(events[before].Value, d.Body) {
			t.Errorf("%d events, and %d before", len(events), before)
		}
		if kept := r.all("quarantine.acme.orders"); len(kept) != 0 {
			t.Errorf("%d are in quarantine", len(kept))
		}
	}
}

// A rekey, and a slip in the team's file at the next start: what is on disk waits for the file, and goes to the topic that it names.
func TestSpoolOfATeamThatIsLeftOut(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text = strings.Replace(r.text, "listen: {", "intake: {spool: {dir: "+t.TempDir()+"}}\non_broker_outage: spool\nlisten: {", 1)
	r.text, _, _ = strings.Cut(r.text, "    destinations:")
	there := r.cluster.ListenAddrs()[0]
	r.text = strings.Replace(r.text, there, "127.0.0.1:1", 1)
	p := r.run(config.RoleIntake)
	p.accepted("orders", "orders-secret", order("x", 1))
	p.clean()

	r.text = strings.Replace(strings.Replace(r.text, "127.0.0.1:1", there, 1), "preset: generic", "preset: generic\n        topic: "+ordersTopic+".24", 1)
	r.createTopics()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "teams"), 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	main, acme, _ := strings.Cut(r.text, "teams:\n")
	write("forebay.yaml", main+"teams_dir: teams\n")
	write("teams/acme.yaml", "teams:\n"+acme+"    surces: {}\n")
	write("teams/other.yaml", "teams: {other: {sources: {github: {preset: github, secrets: [s]}}}}\n")
	o := config.Options{Path: filepath.Join(dir, "forebay.yaml"), Roles: []config.Role{config.RoleIntake}, Run: true}
	file, left, err := config.Start(o)
	if err != nil || len(left) != 1 {
		t.Fatalf("%v %v", left, err)
	}
	a := r.app(config.RoleIntake)
	a.current.Store(file)
	p = r.begin(a)
	p.ready()
	rows := p.app.spoolRows()
	if len(rows) != 1 || rows[0].Events != 1 || !strings.Contains(rows[0].Detail, "the file of the team is left out") {
		t.Errorf("%+v", rows)
	}
	write("teams/acme.yaml", "teams:\n"+acme)
	read, left, err := file.Reload(o)
	if err == nil {
		err = p.app.Reload(read)
	}
	if err != nil || left != nil {
		t.Fatalf("%v %v", left, err)
	}
	p.metric("forebay_spool_size_bytes", 0)
	p.clean()
	if then, now := r.all(ordersTopic), r.all(ordersTopic+".24"); len(then) != 0 || len(now) != 1 {
		t.Errorf("%d in the topic of then, %d in that of now", len(then), len(now))
	}
}

// A file of the spool that the start cannot read is told of, beside brokers that answer.
func TestSpoolFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	dir := t.TempDir()
	r.text = strings.Replace(r.text, "listen: {", "intake: {spool: {dir: "+dir+"}}\non_broker_outage: spool\nlisten: {", 1)
	if err := os.MkdirAll(filepath.Join(dir, "acme.orders", "000000000007.spool"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := r.run(config.RoleIntake)
	if rows := p.waiting(api.KindSpooling); len(rows) != 1 || rows[0].ID != "acme/orders" || !strings.Contains(rows[0].Detail, "1 files could not be read") {
		t.Errorf("%+v", rows)
	}
	if status, body := p.readyz(); status != http.StatusOK || !strings.Contains(body, "1 files could not be read") {
		t.Errorf("%d %s", status, body)
	}
	p.clean()
}

// all gives the records that a topic has now.
func (r *deployment) all(topic string) []*kgo.Record {
	r.t.Helper()
	ends, err := kadm.NewClient(r.client()).ListEndOffsets(r.t.Context(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	n := int64(0)
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return r.read(topic, int(n))
}

// A source that found no room is no trouble at the next outage: what filled the disk is with the brokers.
func TestSpoolIsFullNoMore(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text = strings.Replace(r.text, "listen: {", "intake: {spool: {dir: "+t.TempDir()+", max_size: 16MiB}}\non_broker_outage: spool\nlisten: {", 1)
	r.text = strings.Replace(strings.Replace(r.text, "preset: generic", "preset: generic\n        deadline: 1s", 1), "preset: github,", "preset: github, deadline: 1s,", 1)
	p := r.run(config.RoleIntake)
	held := r.hold()
	for rev := 1; ; rev++ {
		d := order("y", rev)
		d.Body = append(d.Body, bytes.Repeat([]byte(" "), 1<<20-1<<10)...)
		got := p.send("orders", "orders-secret", d)
		used, most := p.app.intake.spool.Size()
		if got == http.StatusServiceUnavailable && used+1<<20 > most { // else a slow disk was too late for the deadline
			break
		}
		if got != http.StatusAccepted && got != http.StatusServiceUnavailable || rev == 60 {
			t.Fatalf("the %dth was answered %d, %d of %d bytes are used", rev, got, used, most)
		}
	}
	_, d := issue(1, 1)
	d.Body = append(d.Body, bytes.Repeat([]byte(" "), 1<<20)...)
	if got := p.send("github", "first-secret", d); got != http.StatusServiceUnavailable {
		t.Fatalf("there is room: %d", got)
	}
	if err := p.app.intake.spool.takes(errNotStarted); err == nil || !strings.Contains(err.Error(), "the disk takes no more") {
		t.Errorf("a full disk: %v", err)
	}
	close(held)
	p.metric("forebay_spool_size_bytes", 0)
	var works notice
	if err := p.app.intake.spool.takes(errNotStarted); !errors.As(err, &works) {
		t.Errorf("an empty disk: %v", err)
	}
	if rows := p.waiting(api.KindSpooling); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
	p.clean()
}
