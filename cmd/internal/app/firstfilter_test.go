package app

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas/short"
)

// startRedis starts a redis-server that listens on a socket.
func startRedis(t *testing.T, socket string) *exec.Cmd {
	t.Helper()
	short.NeedsServer(t, "redis-server")
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is not installed: `make deps` installs it")
	}
	cmd := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", filepath.Dir(socket))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if !rig.Until(time.Minute, func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}) {
		t.Fatal("redis-server does not answer")
	}
	return cmd
}

// TestFirstFilterSavesRecordsAlone: what was acknowledged acts once, whatever the Redis does. While it works, repeats are no records; while it
// stands still or is gone, the ledger finds them to be duplicates, and the sender sees a 202 all the same. It is taken up and left by a reload.
func TestFirstFilterSavesRecordsAlone(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "redis") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	redis := startRedis(t, socket)
	a := newAgent(t)
	r := deploy(t, a.URL, newLedger(t), true)
	without := r.text
	r.text = strings.Replace(r.text, "preset: generic", "preset: generic\n        first_filter: {redis: {url: 'unix://"+socket+"'}}", 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	filtered := func(result string) float64 {
		n, _ := counted(t, p.app.registry, "forebay_ingest_first_filter_total", map[string]string{"team": "acme", "source": "orders", "result": result})
		return n
	}
	// send delivers an order, which must be acknowledged under its id.
	send := func(rev int) {
		t.Helper()
		status, body := p.post("orders", "orders-secret", order("o-1", rev))
		var answer struct{ ID string }
		if err := json.Unmarshal(body, &answer); status != 202 || err != nil || !strings.HasPrefix(answer.ID, "o-1-") {
			t.Fatalf("answered %d %s", status, body)
		}
	}
	repeats := 0 // of the first order, that became records: before the filter was connected, or knew the topic
	send(1)
	if !rig.Until(time.Minute, func() bool {
		hits := filtered("hit")
		send(1)
		if filtered("hit") > hits {
			return true
		}
		repeats++
		return false
	}) {
		t.Fatal("a repeat is never answered by the filter")
	}
	before := filtered("hit")
	for range 5 {
		send(1)
	}
	if n := filtered("hit") - before; n > 5 || n < 1 { // a busy machine may not answer in 50 ms
		t.Errorf("%v of 5 repeats were answered by the filter", n)
	}
	repeats += 5 - int(filtered("hit")-before)
	send(2)
	p.repeated("fulfil", "orders", "o-1-1", repeats)

	if err := redis.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		send(1)
	}
	_ = redis.Process.Kill()
	for range 20 {
		send(1)
	}
	send(3)
	p.repeated("fulfil", "orders", "o-1-1", repeats+40)

	r.text = without
	r.reload(p, config.RoleIntake, config.RoleStream)
	asked := filtered("unasked") + filtered("error") + filtered("miss")
	send(1)
	p.repeated("fulfil", "orders", "o-1-1", repeats+41)
	if filtered("unasked")+filtered("error")+filtered("miss") != asked {
		t.Error("a filter that is gone from the file is asked")
	}
	calls := a.wait(t, 3)
	for n, want := range []string{"o-1-1", "o-1-2", "o-1-3"} {
		if calls[n].ID != want {
			t.Errorf("call %d is %s, want %s", n, calls[n].ID, want)
		}
	}
	if n := len(a.wait(t, 3)); n != 3 {
		t.Errorf("%d calls", n)
	}
	p.clean()
}
