package integration

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// fullAt makes the kernel answer no more handshakes at an address: packets to it are swallowed, as by a record without a route.
func fullAt(t *testing.T, port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 7}, Port: port}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.7:%d", port), 100*time.Millisecond)
		if err != nil {
			return
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the queue does not fill")
}

// TestDeadAddressFailsNothing: the agent's name has two addresses, the first of which swallows packets. Every event is acted on, at its
// first attempt.
func TestDeadAddressFailsNothing(t *testing.T) {
	t.Parallel()
	if err := exec.Command("unshare", "--mount", "true").Run(); err != nil {
		t.Skipf("names can be given to a process in a mount namespace of its own only, which is not allowed here: %v", err)
	}
	r := deploy(t, rig.Fake(t), options{})
	agent, err := url.Parse(r.agent.URL)
	if err != nil {
		t.Fatal(err)
	}
	var port int
	if _, err := fmt.Sscan(agent.Port(), &port); err != nil {
		t.Fatal(err)
	}
	fullAt(t, port)
	hosts := filepath.Join(r.dir, "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n127.0.0.7 agent.test\n127.0.0.1 agent.test\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(r.config)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte(agent.Host+"/run"), []byte("agent.test:"+agent.Port()+"/run"))
	if err := os.WriteFile(r.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r.wrap = []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, hosts}
	r.serve("intake,stream")
	for _, d := range []delivery{issue(7, 1, 1), issue(7, 2, 1), order("o-1", 1)} {
		if err := r.sender.deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	r.agent.waitActed(t, 3, 30*time.Second)
	p := r.intake.Load()
	waitItems(t, r, p, 3, "--status", "done")
	for _, i := range r.inbox(p) {
		if i.Attempts != 1 {
			t.Errorf("%s took %d attempts", i.EventID, i.Attempts)
		}
	}
	r.requireOnce(t)
}

// TestTeamsBringTheirOwnUser: PG* variables and .pgpass of the process open no database to a team's file, whose URL has nobody in it; one
// that has acts as that user, whatever the process has.
func TestTeamsBringTheirOwnUser(t *testing.T) {
	r := deploy(t, rig.Fake(t), options{})
	own, err := url.Parse(r.dbURL)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := own.User.Password(); !ok {
		own.User = url.UserPassword(own.User.Username(), "any-password")
	}
	password, _ := own.User.Password()
	pgpass := filepath.Join(r.dir, "pgpass")
	if err := os.WriteFile(pgpass, []byte("*:*:*:*:"+password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGUSER", own.User.Username())
	t.Setenv("PGPASSWORD", password)
	t.Setenv("PGPASSFILE", pgpass)
	const destination = "      shop: {type: postgres, database: %q, statement: \"SELECT 1\", params: {values: []}, allow_networks: [127.0.0.0/8], retry: {attempts: 1}}"
	with := func(database string) {
		t.Helper()
		text, err := os.ReadFile(r.config)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "      shop:") {
				lines[i] = fmt.Sprintf(destination, database)
			}
		}
		if err := os.WriteFile(r.config, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nobody := *own
	nobody.User = nil
	with(nobody.String())
	if out, err := r.try("127.0.0.1:0", "config", "check", "-c", r.config); err == nil || !strings.Contains(string(out), "shop.database: has no user and password") {
		t.Errorf("a URL without a user: %s %v", out, err)
	}
	with(own.String())
	t.Setenv("PGUSER", "process")
	t.Setenv("PGPASSWORD", "process")
	t.Setenv("PGDATABASE", "process")
	t.Setenv("PGTARGETSESSIONATTRS", "any")
	p := r.serve("intake,stream")
	if err := r.sender.deliver(t.Context(), order("o-1", 1)); err != nil {
		t.Fatal(err)
	}
	waitItems(t, r, p, 1, "--status", "done")
}
