package embedded

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestHealedCommitsSurvive: a crash leaves half an entry, the next run commits and crashes as well. Without healing that
// commit lies behind the damage and the run after it reads the old one.
func TestHealedCommitsSurvive(t *testing.T) {
	t.Parallel()
	first := t.TempDir()
	b := startBroker(t, BrokerConfig{Dir: first})
	c := brokerClient(t, b)
	createTopic(t, c, "t", nil)
	commit(t, c, 1)
	second := crashed(t, first)
	log := filepath.Join(second, "groups.log")
	raw, err := os.ReadFile(log)
	if err != nil || len(raw) < 20 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	if err := os.WriteFile(log, append(raw, raw[:len(raw)-3]...), 0o644); err != nil {
		t.Fatal(err)
	}

	c = brokerClient(t, startBroker(t, BrokerConfig{Dir: second}))
	commit(t, c, 2)

	c = brokerClient(t, startBroker(t, BrokerConfig{Dir: crashed(t, second)}))
	got, err := kadm.NewClient(c).FetchOffsets(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if at, _ := got.Lookup("t", 0); at.At != 2 {
		t.Errorf("the commit after the damage is lost: %d", at.At)
	}
}

func commit(t *testing.T, c *kgo.Client, at int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset("t", 0, at, -1)
	if err := kadm.NewClient(c).CommitAllOffsets(t.Context(), "g", offsets); err != nil {
		t.Fatal(err)
	}
}

// crashed is what a kill -9 at this moment would leave of a running broker's directory: a copy of its files.
func crashed(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(to, "port")); err != nil { // the original still listens
		t.Fatal(err)
	}
	return to
}

func TestWholeEntries(t *testing.T) {
	t.Parallel()
	entry := func(data string) []byte {
		body := append([]byte{1, 0}, data...)
		head := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
		return append(binary.LittleEndian.AppendUint32(head, crc32.Checksum(body, castagnoli)), body...)
	}
	whole := append(entry(`{"a":1}`), entry("")...)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-1] ^= 1
	for name, tt := range map[string]struct {
		raw  []byte
		want int
	}{
		"empty":            {nil, 0},
		"whole":            {whole, len(whole)},
		"half a header":    {append(bytes.Clone(whole), whole[:5]...), len(whole)},
		"half an entry":    {append(bytes.Clone(whole), whole[:12]...), len(whole)},
		"zeros":            {append(bytes.Clone(whole), make([]byte, 64)...), len(whole)},
		"wrong checksum":   {flipped, len(entry(`{"a":1}`))},
		"length too large": {[]byte{255, 255, 255, 255, 0, 0, 0, 0, 1, 0, 0}, 0},
	} {
		if got := wholeEntries(tt.raw); got != tt.want {
			t.Errorf("%s: %d of %d bytes are whole, want %d", name, got, len(tt.raw), tt.want)
		}
	}
}
