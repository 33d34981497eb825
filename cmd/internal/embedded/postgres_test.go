package embedded

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas/short"
)

func startPostgres(t *testing.T, dir string) *Postgres {
	t.Helper()
	p, err := StartPostgres(t.Context(), PostgresConfig{Dir: dir, Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill() })
	return p
}

// query runs statements on the server; the result is the text of the first column of the last one's first row, if any.
func query(t *testing.T, url string, statements ...string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var text string
	for _, statement := range statements {
		rows, err := conn.Query(t.Context(), statement)
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				t.Fatal(err)
			}
			text = fmt.Sprint(values[0])
		}
		if err := rows.Err(); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return text
}

func stop(t *testing.T, p *Postgres) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func needsServers(t *testing.T) {
	t.Helper()
	short.NeedsServer(t, "PostgreSQL")
	t.Parallel()
}

// TestPostgresKeepsDataPortAndDurability: a server is stopped, killed, killed while one of its processes lives on, and left behind by its
// parent. The next one on the directory has its data, its URL and its settings.
func TestPostgresKeepsDataPortAndDurability(t *testing.T) {
	needsServers(t)
	dir := filepath.Join(openDir(t), "pg")
	p := startPostgres(t, dir)
	query(t, p.URL().Reveal(), `CREATE TABLE kept (x int)`, `INSERT INTO kept VALUES (42)`,
		`ALTER SYSTEM SET fsync = off`, `ALTER SYSTEM SET synchronous_commit = off`, `ALTER SYSTEM SET full_page_writes = off`)

	_, err := StartPostgres(t.Context(), PostgresConfig{Dir: dir})
	if held := new(HeldError); !errors.As(err, &held) || !strings.Contains(held.Holder, strconv.Itoa(os.Getpid())) {
		t.Errorf("second start on the same directory: %v", err)
	}
	stop(t, p)
	select {
	case <-p.Done():
	default:
		t.Error("Done is open after Stop")
	}

	again := startPostgres(t, dir)
	kept := func(after string) {
		t.Helper()
		if again.URL() != p.URL() {
			t.Errorf("the URL changed with the restart after %s", after)
		}
		if got := query(t, again.URL().Reveal(), `SELECT x FROM kept`); got != "42" {
			t.Errorf("kept row after %s: %q", after, got)
		}
	}
	kept("a stop")
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if got := query(t, again.URL().Reveal(), `SHOW `+setting); got != "on" {
			t.Errorf("%s = %s", setting, got)
		}
	}
	if strings.Contains(fmt.Sprintf("%v %+v", again.URL(), again.URL()), again.password) {
		t.Error("the URL prints its password")
	}
	for _, file := range []string{"password", "server/server.log"} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if _, err := pgx.Connect(t.Context(), strings.Replace(again.URL().Reveal(), again.password, "guess", 1)); err == nil {
		t.Error("a wrong password was let in")
	}
	if err := again.Kill(); err != nil {
		t.Fatal(err)
	}

	again = startPostgres(t, dir)
	kept("a kill")
	frozen := killAllButOne(t, again)
	again = startPostgres(t, dir) // beside that process it would destroy the data
	kept("a kill that one of its processes did not notice")
	if running := processes(t, again.data()); slices.Contains(running, frozen) {
		t.Errorf("process %d of the dead server is among %v", frozen, running)
	}
	stop(t, again)

	cmd, url, data := startHelper(t, "postgres "+dir)
	cmd.Process.Kill()
	cmd.Wait()
	orphan := pidFile(data)
	if got := query(t, url, `SELECT x FROM kept`); got != "42" {
		t.Fatalf("the server did not outlive its parent: %q", got)
	}
	again = startPostgres(t, dir)
	kept("the end of its parent")
	if running := processes(t, data); orphan == 0 || slices.Contains(running, orphan) {
		t.Errorf("the old server, process %d, is among %v", orphan, running)
	}
}

// killAllButOne kills a server while one of its processes is frozen, and cannot notice. It returns that process.
func killAllButOne(t *testing.T, p *Postgres) (child int) {
	t.Helper()
	running := slices.DeleteFunc(processes(t, p.data()), func(pid int) bool { return pid == p.cmd.Process.Pid })
	child = slices.Min(running) // one of those that it always has; later ones come and go
	if err := syscall.Kill(child, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.kill(syscall.SIGKILL)
	<-p.Done()
	p.release()
	p.once.Do(func() {}) // stopped, as far as the clean-up is concerned
	return child
}

// processes returns the processes of the server on some data, of which there must be some.
func processes(t *testing.T, data string) []int {
	t.Helper()
	running, err := processesIn(data)
	if err != nil || len(running) < 2 {
		t.Fatalf("processes %v, %v", running, err)
	}
	return running
}

// helpPostgres starts a server, prints its URL and stays until it is killed.
func helpPostgres(cfg PostgresConfig) {
	p, err := StartPostgres(context.Background(), cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
	fmt.Println(p.URL().Reveal(), p.data())
	<-p.Done()
}

// startHelper starts a server in a process of its own, and says where it is.
func startHelper(t *testing.T, job string) (cmd *exec.Cmd, url, data string) {
	t.Helper()
	cmd = helper(t, job)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(out, &url, &data); err != nil {
		t.Fatalf("the helper did not start a server: %v", err)
	}
	return cmd, url, data
}

// TestTemporaryPostgresEndsWithItsParent: forebay is killed, and neither the server stays nor what it kept. As root its data
// lie elsewhere, for the directory is closed to its user.
func TestTemporaryPostgresEndsWithItsParent(t *testing.T) {
	needsServers(t)
	dir := openDir(t)
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd, url, data := startHelper(t, "temporary "+dir)
	if elsewhere := strings.HasPrefix(data, filepath.Join(dir, "state")); elsewhere != (os.Geteuid() == 0) {
		t.Errorf("the data lie in %s", data)
	}
	query(t, url, `SELECT 1`)
	processes(t, data)
	cmd.Process.Kill()
	cmd.Wait()
	deadline := time.Now().Add(2 * time.Minute)
	for exists(closed) || exists(filepath.Dir(data)) {
		if time.Now().After(deadline) {
			t.Fatal("what the server kept is still there after its parent was killed")
		}
		<-time.After(20 * time.Millisecond)
	}
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		conn.Close(t.Context())
		t.Error("the server outlives its parent")
	}
}

func TestPostgresStaleFiles(t *testing.T) {
	needsServers(t)
	dir := openDir(t)
	leave := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	leave(filepath.Join(dir, "server", "data.new", "PG_VERSION"), "15\n") // initdb was interrupted
	// A temporary one has a watchdog, which ends with it; the end of the data is its owner's.
	p, err := StartPostgres(t.Context(), PostgresConfig{Dir: dir, Temporary: dir, Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill() })
	if err := p.watchdog.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("no watchdog: %v", err)
	}
	if got := query(t, p.URL().Reveal(), `SELECT 1`); got != "1" {
		t.Errorf("after an interrupted initdb: %q", got)
	}
	stop(t, p)
	if p.watchdog.cmd.ProcessState == nil {
		t.Error("the watchdog outlives the server")
	}

	// The pid of a living process that is no PostgreSQL: ours. It must survive, too.
	pidfile := filepath.Join(p.data(), "postmaster.pid")
	leave(pidfile, fmt.Sprintf("%d\n%s\n%d\n%d\n\n127.0.0.1\n", os.Getpid(), p.data(), time.Now().Unix(), p.Port()))
	if err := p.account.own(pidfile); err != nil {
		t.Fatal(err)
	}
	// A shell that somebody left in the data directory must, too.
	stranger := exec.Command("sleep", "600")
	stranger.Dir = p.data()
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- stranger.Wait() }()
	p = startPostgres(t, dir)
	stop(t, p)
	select {
	case err := <-gone:
		t.Errorf("a program that stood in the data directory was ended: %v", err)
	default:
		stranger.Process.Kill()
		<-gone
	}

	if err := os.Remove(filepath.Join(dir, "password")); err != nil {
		t.Fatal(err)
	}
	_, err = StartPostgres(t.Context(), PostgresConfig{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "password is gone") {
		t.Errorf("without its password: %v", err)
	}
	leave(filepath.Join(p.data(), "PG_VERSION"), "9\n")
	_, err = StartPostgres(t.Context(), PostgresConfig{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "postgresql-9") {
		t.Errorf("data of an old version: %v", err)
	}
}

// TestPostgresDownloaded fetches the programs, where the cache does not have them, and runs them.
func TestPostgresDownloaded(t *testing.T) {
	needsServers(t)
	cfg := PostgresConfig{Dir: filepath.Join(openDir(t), "pg"), Download: true, Logger: testLog(t)}
	p, err := StartPostgres(t.Context(), cfg)
	if err != nil {
		t.Fatalf("this test needs Maven Central once (15 MB): %v", err)
	}
	t.Cleanup(func() { p.Kill() })
	if got := query(t, p.URL().Reveal(), `SHOW server_version`); !strings.HasPrefix(got, "17.") {
		t.Errorf("version %s runs", got)
	}
	if !strings.Contains(p.Origin(), "downloaded") {
		t.Errorf("origin: %s", p.Origin())
	}
	if err := p.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exists(cfg.Dir) {
		t.Errorf("%s is still there after Discard", cfg.Dir)
	}
}

func TestPostgresCannotBeFetched(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said strings.Builder
	at := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn})) // as forebay dev has it
	if _, err := findPrograms(ctx, PostgresConfig{Download: true, Cache: openDir(t), Logger: at}, "", nil); err == nil || !strings.Contains(said.String(), "its programs are fetched once") {
		t.Errorf("it fetches in silence: %v %q", err, said.String())
	}
	file := filepath.Join(openDir(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := findPrograms(ctx, PostgresConfig{Download: true, Cache: file}.withDefaults(), "", nil)
	if err == nil || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Errorf("no way out is named: %v", err)
	}
}

// TestDownloadThatIsNotWhatWasPublished answers with other bytes, none, a refusal, and not at all.
func TestDownloadThatIsNotWhatWasPublished(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gone":
			http.NotFound(w, r)
			return
		case "/silent":
			<-r.Context().Done()
			return
		}
		w.Write([]byte("other bytes"))
		if r.URL.Path == "/begun" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	sum := builds["linux/amd64"].sha256
	for path, says := range map[string]string{"/other": "not " + sum, "/gone": "404", "/silent": "nothing came for 2s", "/begun": "nothing came for 2s"} {
		if _, err := download(t.Context(), server.URL+path, sum, 2*time.Second); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
	server.Close()
	if _, err := download(t.Context(), server.URL, sum, patience); err == nil {
		t.Error("nobody listens, and something came")
	}
}

// TestUnpackKeepsInside gives it archives that would write elsewhere, and one without programs.
func TestUnpackKeepsInside(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for name, headers := range map[string][]tar.Header{
		"a path upwards":   {{Typeflag: tar.TypeReg, Name: "../file"}},
		"an absolute path": {{Typeflag: tar.TypeReg, Name: filepath.Join(outside, "file")}},
		"a link out of it": {{Typeflag: tar.TypeSymlink, Name: "bin", Linkname: outside}, {Typeflag: tar.TypeReg, Name: "bin/file"}},
		"a device":         {{Typeflag: tar.TypeChar, Name: "device"}},
	} {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		for _, h := range headers {
			err = unpackEntry(root, &h, strings.NewReader("x"))
		}
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("written outside: %v %v", left, err)
	}
	if err := unpack([]byte("no archive"), t.TempDir()); err == nil {
		t.Error("no archive was taken for one")
	}
}

func TestPostgresSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes", "port", "data_directory"} {
		_, err := StartPostgres(t.Context(), PostgresConfig{Dir: t.TempDir(), Settings: map[string]string{name: "off"}})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := StartPostgres(t.Context(), PostgresConfig{}); err == nil {
		t.Error("no directory was accepted")
	}
}
