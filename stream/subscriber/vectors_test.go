package subscriber

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/short"
	"github.com/forebay-io/forebay/stream/gate"
)

var update = flag.Bool("update", false, "write testdata/vectors.json again")

// The test vectors as they are in the file.
type (
	vectorFile struct {
		About string       `json:"about"`
		Cases []vectorCase `json:"cases"`
	}
	vectorCase struct {
		Name   string       `json:"name"`
		Policy vectorPolicy `json:"policy"`
		Steps  []vectorStep `json:"steps"`
	}
	vectorPolicy struct {
		Start        gate.Start `json:"start"`
		Equal        gate.Equal `json:"equal"`
		FutureSkewMS int64      `json:"future_skew_ms"`
	}
	vectorStep struct {
		Record    *vectorRecord    `json:"record,omitempty"`
		Expire    [][2]string      `json:"expire,omitempty"` // entity and clock
		Decisions []vectorDecision `json:"decisions"`
	}
	vectorRecord struct {
		Offset      int64             `json:"offset"`
		TimestampMS int64             `json:"timestamp_ms"`
		Key         *string           `json:"key"`
		Headers     map[string]string `json:"headers"`
		Value       *string           `json:"value"`
	}
	vectorDecision struct {
		Offset   int64         `json:"offset"`
		Decision gate.Decision `json:"decision"`
		Reason   gate.Reason   `json:"reason"`
	}
)

// TestVectors holds the subscriber's decoding and the gate to the file of test vectors: one case for each thing to know, and histories by chance.
// -update writes what the gate says of the records in it.
func TestVectors(t *testing.T) {
	t.Parallel()
	want, got := readVectors(t), readVectors(t)
	reasons := map[gate.Reason]bool{}
	for i := range got.Cases {
		got.Cases[i].decide()
		for _, s := range got.Cases[i].Steps {
			for _, d := range s.Decisions {
				reasons[d.Reason] = true
			}
		}
	}
	for _, reason := range contractReasons {
		if !reasons[reason] {
			t.Errorf("no vector has the reason %s", reason)
		}
		delete(reasons, reason)
	}
	if len(reasons) > 0 {
		t.Errorf("CONTRACT.md does not have the reasons %v", reasons)
	}
	if *update {
		if err := os.WriteFile(vectorsPath, got.text(t), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the gate does not say what the file does; -update writes it:\n%s", diff)
	}
}

var vectorsPath = filepath.Join("testdata", "vectors.json")

func readVectors(t *testing.T) (f vectorFile) {
	t.Helper()
	text, err := os.ReadFile(vectorsPath)
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil || len(f.Cases) == 0 {
		t.Fatal(len(f.Cases), err)
	}
	return f
}

// text is the file, a step a line.
func (f vectorFile) text(t *testing.T) []byte {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, begin := range []string{`{"name":`, `{"record":`, `{"expire":`} {
		text = bytes.ReplaceAll(text, []byte(begin), []byte("\n"+begin))
	}
	return append(text, '\n')
}

// contractReasons are the reasons that a subscriber's policies can lead to.
var contractReasons = []gate.Reason{
	gate.ReasonUndecodable, gate.ReasonSeen, gate.ReasonBodyDiffers, gate.ReasonArrival, gate.ReasonFirst, gate.ReasonNewEpoch, gate.ReasonNext,
	gate.ReasonEqual, gate.ReasonBackfilled, gate.ReasonReleased, gate.ReasonGapSkipped, gate.ReasonOlder, gate.ReasonOlderDelta,
	gate.ReasonFiller, gate.ReasonEqualFirst, gate.ReasonEqualLast, gate.ReasonGap, gate.ReasonStartGap,
}

// TestContractNamesTheReasons holds the page to the same list.
func TestContractNamesTheReasons(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("CONTRACT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range contractReasons {
		if !strings.Contains(string(page), "`"+string(reason)+"`") {
			t.Errorf("CONTRACT.md does not say when the reason is %s", reason)
		}
	}
}

// TestContractNamesTheHeaders: each attribute that a record can have is on the page, but those that only tell of its event.
func TestContractNamesTheHeaders(t *testing.T) {
	t.Parallel()
	tell := strings.Fields("ce_specversion ce_deliveryid ce_senderid ce_senderlogin ce_senderkind ce_sendertrust ce_conversation ce_agentchain ce_agentdepth ce_agenttraceid " +
		"ce_entitytitle ce_recordedtime ce_secretnumber ce_dataschema ce_datacontenttype ce_traceparent ce_tracestate")
	source, err := os.ReadFile(filepath.Join("..", "..", "schemas", "record", "attr.go"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("CONTRACT.md")
	if err != nil {
		t.Fatal(err)
	}
	all := append(regexp.MustCompile(`ce_[a-z]+`).FindAllString(string(source), -1), "ce_"+schemas.EncodingAttribute)
	if len(all) < 30 {
		t.Fatalf("attr.go has %q", all)
	}
	for _, name := range all {
		if slices.Contains(tell, name) == strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("%s is neither in CONTRACT.md nor one that only tells of its event, or both", name)
		}
	}
}

// TestPythonKeepsTheContract runs the implementation in Python against all vectors, and against wrong ones, which it has to notice.
func TestPythonKeepsTheContract(t *testing.T) {
	short.NeedsServer(t, "Python")
	t.Parallel()
	script := filepath.Join("testdata", "contract.py")
	out, err := exec.CommandContext(t.Context(), "python3", script, filepath.Join("testdata", "vectors.json")).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), " 0 failed") {
		t.Errorf("%v (make deps installs Python 3):\n%s", err, out)
	}
	t.Logf("%s", out)
	text, err := os.ReadFile(filepath.Join("testdata", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.json")
	if err := os.WriteFile(wrong, []byte(strings.Replace(string(text), `"filler"`, `"older"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "python3", script, wrong).CombinedOutput(); err == nil || !strings.Contains(string(out), " 1 failed") {
		t.Errorf("it did not notice a wrong vector: %v\n%s", err, out)
	}
}

// decide fills in what the gate says, one step after the other.
func (c *vectorCase) decide() {
	state := gate.NewState()
	policy := gate.Policy{Start: c.Policy.Start, Equal: c.Policy.Equal, GapWait: time.Hour, FutureSkew: time.Duration(c.Policy.FutureSkewMS) * time.Millisecond}
	for i := range c.Steps {
		s := &c.Steps[i]
		d := &decided{}
		var out []gate.Outcome
		if s.Record != nil {
			d.unit.records = []*kgo.Record{s.Record.kafka()}
			d.decode()
			out = gate.Decide(state, d.records, policy)
		} else {
			var lines []gate.VersionLineKey
			for _, l := range s.Expire {
				lines = append(lines, gate.VersionLineKey{Entity: schemas.EntityKey(l[0]), Clock: l[1]})
			}
			out = gate.Expire(state, lines, policy)
		}
		s.Decisions = []vectorDecision{}
		for _, o := range out {
			offset := int64(0)
			if o.Record >= 0 {
				offset = s.Record.Offset
			} else {
				offset = o.Released.Offset
			}
			s.Decisions = append(s.Decisions, vectorDecision{offset, o.Decision, o.Reason})
		}
	}
}

func (r *vectorRecord) kafka() *kgo.Record {
	k := &kgo.Record{Offset: r.Offset, Timestamp: time.UnixMilli(r.TimestampMS).UTC()}
	if r.Key != nil {
		k.Key = []byte(*r.Key)
	}
	if r.Value != nil {
		k.Value = []byte(*r.Value)
	}
	for name, value := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return k
}
