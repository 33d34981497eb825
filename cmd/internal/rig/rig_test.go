package rig

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas/short"
)

// brokerSuite is what the integration suite relies on, of either broker.
func brokerSuite(t *testing.T, b Broker, victim int, replication int16) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.Bootstrap(), ",")...), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	if err := c.ProduceSync(ctx, &kgo.Record{Topic: "not.there"}).FirstErr(); err == nil {
		t.Error("a topic that nobody made was made by producing to it")
	}
	if _, err := admin.CreateTopic(ctx, 1, replication, nil, "t"); err != nil {
		t.Fatal(err)
	}
	produce := func(value string) {
		t.Helper()
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatalf("produce %s: %v", value, err)
		}
	}
	produce("before")
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: "t", Partition: 0, At: 1, LeaderEpoch: -1, Metadata: "marker"})
	if err := admin.CommitAllOffsets(ctx, "g", offsets); err != nil {
		t.Fatal(err)
	}

	b.KillBroker(victim)
	b.RestartBroker(victim)
	produce("after")
	committed, err := admin.FetchOffsets(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	if at, _ := committed.Lookup("t", 0); at.At != 1 || at.Metadata != "marker" {
		t.Errorf("commit after the restart: %+v", at)
	}

	b.ResetToEarliest("g", "t")
	committed, err = admin.FetchOffsets(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	if at, _ := committed.Lookup("t", 0); at.At != 0 || at.Metadata != "" {
		t.Errorf("commit after the reset: %+v", at)
	}
	ends, err := admin.ListEndOffsets(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup("t", 0); end.Offset != 2 {
		t.Errorf("the log ends at %d", end.Offset)
	}
}

func TestFake(t *testing.T) {
	t.Parallel()
	brokerSuite(t, Fake(t), 1, 1)
}

func TestKafkaOfOne(t *testing.T) {
	k := Kafka(t, 1)
	brokerSuite(t, k, 1, 1)
	if out := k.Groups("--list"); !strings.Contains(out, "g") {
		t.Errorf("groups --list: %q", out)
	}
}

func TestKafkaOfThree(t *testing.T) {
	brokerSuite(t, Kafka(t, 3), 2, 3)
}

func TestPostgresKillAndRestart(t *testing.T) {
	t.Parallel()
	p := Postgres(t)
	conn, err := pgx.Connect(t.Context(), p.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `CREATE TABLE kept AS SELECT 1 AS x`); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if _, err := conn.Exec(t.Context(), `SELECT 1`); err == nil {
		t.Error("the server answers after it was killed")
	}
	p.Restart()
	if conn, err = pgx.Connect(t.Context(), p.URL()); err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var x int
	if err := conn.QueryRow(t.Context(), `SELECT x FROM kept`).Scan(&x); err != nil || x != 1 {
		t.Errorf("%d, %v", x, err)
	}
}

func TestDatabaseIsFreshAndDropped(t *testing.T) {
	var url string
	t.Run("use", func(t *testing.T) {
		url = Database(t)
		if other := Database(t); other == url {
			t.Error("two calls gave the same database")
		}
		conn, err := pgx.Connect(t.Context(), url) // left open: the drop must not wait for it
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `CREATE TABLE x ()`); err != nil {
			t.Fatal(err)
		}
	})
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		conn.Close(t.Context())
		t.Error("the database is still there after its test")
	}
}

// TestBrokersDoNotOutliveTheTest: a test process that is killed leaves no broker. A stand-in process owns the cluster.
func TestBrokersDoNotOutliveTheTest(t *testing.T) {
	short.NeedsServer(t, "Apache Kafka")
	script, err := kafkaHere()
	requireKafka(t, err)
	bin := t.TempDir() // without ps, which a small machine does not have
	if err := os.WriteFile(filepath.Join(bin, "ps"), []byte("#!/bin/sh\nexit 127\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	owner := exec.Command("sleep", "600")
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		owner.Process.Kill()
		owner.Wait()
	})
	k := &KafkaCluster{t: t, KafkaBrokers: &KafkaBrokers{script: script, dir: t.TempDir()}}
	t.Cleanup(k.stop)
	k.run("start", "--owner", strconv.Itoa(owner.Process.Pid))
	if out := k.run("status"); !strings.Contains(out, "running") {
		t.Fatalf("status: %s", out)
	}
	owner.Process.Kill()
	owner.Wait() // a second time below, for the failures before this line
	if !Until(30*time.Second, func() bool {
		out, err := k.command(t.Context(), "status")
		return err != nil && strings.Contains(out, "stopped")
	}) {
		t.Fatal("the broker still runs 30 s after its owner was killed")
	}
}

// TestUntil asks until it is told yes, and no longer than it may.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, began := 0, time.Now()
		if !Until(time.Second, func() bool { asked++; return asked == 4 }) || time.Since(began) != 14*time.Millisecond {
			t.Errorf("asked %d times in %s", asked, time.Since(began))
		}
		began = time.Now()
		if Until(time.Second, func() bool { return false }) || time.Since(began) < time.Second || time.Since(began) > 1100*time.Millisecond {
			t.Errorf("a no ends after %s", time.Since(began))
		}
	})
}

// TestWithoutKafka: the test fails without Kafka, and is skipped only where the Makefile allowed it and this is not CI.
func TestWithoutKafka(t *testing.T) {
	for _, tt := range []struct {
		name, allow, ci string
		here            error
		skipped, failed bool
	}{
		{"plain go test", "", "", errors.New("no Java"), false, true},
		{"make test", "1", "", errors.New("no Java"), true, false},
		{"CI", "1", "true", errors.New("no Java"), false, true},
		{"it is here", "1", "", nil, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("FOREBAY_ALLOW_SKIP_KAFKA", tt.allow)
			t.Setenv("CI", tt.ci)
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				requireKafka(r, tt.here)
			}()
			<-done
			if r.skipped != tt.skipped || r.failed != tt.failed {
				t.Errorf("skipped %t, failed %t", r.skipped, r.failed)
			}
		})
	}
}

// TestKafkaThatCannotBeHad: no Java, one that is too old, and no Maven where the jars are not here yet.
func TestKafkaThatCannotBeHad(t *testing.T) {
	for _, tt := range []struct{ name, java, says string }{
		{"no Java", "", "Java 17 or newer is needed"},
		{"Java 11", "11.0.2", "Java 17 or newer is needed"},
		{"no Maven", "17.0.15", "Maven is needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin := t.TempDir()
			for _, tool := range []string{"bash", "sed", "dirname", "cmp", "cat", "mkdir"} {
				at, err := exec.LookPath(tool)
				if err == nil {
					err = os.Symlink(at, filepath.Join(bin, tool))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if tt.java != "" {
				script := "#!/bin/sh\necho 'openjdk version \"" + tt.java + "\"' >&2\n"
				if err := os.WriteFile(filepath.Join(bin, "java"), []byte(script), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", bin)
			t.Setenv("JAVA_HOME", "")
			t.Setenv("FOREBAY_CACHE", t.TempDir())
			if _, err := installKafka(); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// recorder is a test that may fail without failing this one.
type recorder struct {
	testing.TB
	skipped, failed bool
}

func (r *recorder) Skip(...any)  { r.skipped = true; runtime.Goexit() }
func (r *recorder) Fatal(...any) { r.failed = true; runtime.Goexit() }
