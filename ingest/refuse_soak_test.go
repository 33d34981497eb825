//go:build soak

package ingest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// What a refusal took to find shows in nothing, measured from outside: a source with eight keys of SHA-512 against one that does not
// exist, on cores that idle and on cores that others want, too. Of two answers, one of each, the source's should come later about every
// other time; without the wait it does always.
func TestRefusalsTakeTheSameTime(t *testing.T) { // not parallel: it measures
	server, source := manyKeys(t)
	for _, test := range []struct {
		name string
		load refusalLoad
		most float64 // how often either may be the later one: four deviations of so many pairs, and more
		must bool    // be judged, for SECURITY.md promises it; the others are where the machine lets them be
	}{
		{"64 KiB, idle cores", refusalLoad{0, 64 << 10, 60}, 0.75, true},
		{"256 KiB, idle cores", refusalLoad{0, 256 << 10, 24}, 0.8, true},
		{"1 MiB, idle cores", refusalLoad{0, 1 << 20, 12}, 0.9, false},
		{"4 MiB, two others on each core", refusalLoad{2, 4 << 20, 9}, 0.9, false},
	} {
		wait := refusalFloor + time.Duration(test.load.size)*refusalPerByte // a check that takes longer shows, as SECURITY.md says
		later, slow := test.load.measure(t, server, source)
		for try := 1; test.must && slow > wait && try < 5; try++ { // whoever else is on this machine may have left
			later, slow = test.load.measure(t, server, source)
		}
		t.Logf("%s: of pairs, the source's answer is the later one in %.2f; the check alone takes %v or more every fourth time", test.name, later, slow)
		switch {
		case slow > wait && test.must:
			t.Errorf("%s: never judged, for the check alone takes longer than the wait of %v: this machine is too busy to measure on", test.name, wait)
		case slow > wait:
			t.Logf("%s: not judged, for the check alone takes longer than the wait of %v", test.name, wait)
		case max(later, 1-later) > test.most:
			t.Errorf("%s: the answer shows that the source exists", test.name)
		}
	}
}

// refusalLoad is how refusals are measured: beside so many other tasks on each core, of bodies of so many bytes, in so many rounds of
// two answers about each source.
type refusalLoad struct{ perCore, size, rounds int }

// measure returns in which share of pairs the answer about the source was later than that about none, and what the source's check alone
// takes in one of four rounds at least.
func (l refusalLoad) measure(t *testing.T, server *httptest.Server, source *Source) (later float64, slow time.Duration) {
	t.Helper()
	end := occupy(l.perCore * runtime.GOMAXPROCS(0))
	defer end()
	took := map[string][]time.Duration{}
	var checks []time.Duration
	for range l.rounds {
		checks = append(checks, check(source, l.size))
		for _, name := range []string{"keys", "none", "none", "keys"} { // none is first as often as last
			took[name] = append(took[name], refusal(t, server, name, l.size))
		}
	}
	slices.Sort(checks)
	return share(took["keys"], took["none"]), checks[len(checks)*3/4]
}

// manyKeys serves a source that is as expensive to refuse as one can be.
func manyKeys(t *testing.T) (*httptest.Server, *Source) {
	t.Helper()
	c := provider.Config{Team: "acme", Name: "keys", Preset: "generic", Verify: &verify.Params{Algorithm: "sha512", SignatureHeader: "X-Signature"},
		Event: &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{"/entity"}}}
	for i := range 8 {
		c.Secrets = append(c.Secrets, schemas.NewSecret(fmt.Sprintf("secret %d of the source", i)))
	}
	p, err := provider.Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	source := &Source{Source: p, Refused: RefusedOf(&KeepLimits{1, 1 << 30, 1 << 40}, false, nil)} // what is refused is kept, which costs, too
	h, err := New(Config{Log: &fakeLog{}, Sources: func(_, name string) (*Source, bool) { return source, name == "keys" }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server, source
}

// check returns how long the source takes to find that a delivery is forged.
func check(s *Source, size int) time.Duration {
	r := verify.Request{Method: "POST", Header: http.Header{"X-Signature": {strings.Repeat("0", 128)}}, Body: make([]byte, size)}
	begin := time.Now()
	_ = s.Verifier.Verify(&r, begin)
	return time.Since(begin)
}

// occupy keeps cores busy until end is called.
func occupy(goroutines int) (end func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for b := make([]byte, 4096); ; sha256.Sum256(b) {
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	return func() { close(stop); wg.Wait() }
}

// refusal returns how long a forged delivery takes to be refused.
func refusal(t *testing.T, server *httptest.Server, source string, size int) time.Duration {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/v1/in/acme/"+source, bytes.NewReader(make([]byte, size)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Signature", strings.Repeat("0", 128))
	begin := time.Now()
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatal(resp.StatusCode, err)
	}
	return time.Since(begin)
}

// share returns in which share of all pairs a's is the larger one.
func share(a, b []time.Duration) float64 {
	n := 0.0
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				n++
			case x == y:
				n += 0.5
			}
		}
	}
	return n / float64(len(a)*len(b))
}
