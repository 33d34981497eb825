package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const mib = 1 << 20

// withRoom is an intake for bodies of 2 MiB and more, with limits.
func withRoom(t *testing.T, l Limits) *intake {
	return setup(t, func(c *Config, s *Source) { c.MaxBody, s.MaxBody, c.Limits = 2*mib, 2*mib, l })
}

// empty fails unless nothing is held any more.
func (in *intake) empty() {
	in.t.Helper()
	in.server.Close() // waits for the handlers
	if used, large, arriving := in.handler.room.usage(); used != 0 || large != 0 || arriving != 0 {
		in.t.Errorf("%d bytes are still held, %d by large bodies, %d still arrive", used, large, arriving)
	}
}

// stand sends the beginning of a body, of the length that it says (-1: none), and stands still. Its answer's status comes when there
// is one; 0 if the test ends before.
func (in *intake) stand(length, sent int, header ...string) (status <-chan int) {
	in.t.Helper()
	conn, err := net.Dial("tcp", in.server.Listener.Addr().String())
	if err != nil {
		in.t.Fatal(err)
	}
	answered := make(chan int, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			answered <- 0
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	in.t.Cleanup(func() { conn.Close(); <-done })
	head := "POST " + inPath + " HTTP/1.1\r\nHost: x\r\n"
	for i := 0; i < len(header); i += 2 {
		head += header[i] + ": " + header[i+1] + "\r\n"
	}
	if length < 0 {
		head += "Transfer-Encoding: chunked\r\n\r\nffffff\r\n"
	} else {
		head += fmt.Sprintf("Content-Length: %d\r\n\r\n", length)
	}
	_, _ = io.WriteString(conn, head+strings.Repeat("x", sent)) // fails where it is answered at once
	return answered
}

// holds waits until so many bodies arrive and so many bytes are held.
func (in *intake) holds(arriving int, bytes int64) {
	in.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		used, _, n := in.handler.room.usage()
		if n == arriving && used == bytes {
			return
		}
		if time.Now().After(deadline) {
			in.t.Fatalf("%d bodies arrive and %d bytes are held, want %d and %d", n, used, arriving, bytes)
		}
		<-time.After(time.Millisecond)
	}
}

func (in *intake) answered(status <-chan int) int {
	in.t.Helper()
	select {
	case got := <-status:
		return got
	case <-time.After(patience):
		in.t.Fatal("no answer")
		return 0
	}
}

// Senders that promise much hold what they have sent, rounded up: four times of little, twice of much. Whether they say how long
// the body will be makes no difference.
func TestPromisesReserveLittle(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sent  int
		holds int64
	}{
		{0, 0},
		{4 << 10, 16 << 10}, // full, so that the next byte has its room
		{60 << 10, 64<<10 + 1},
		{70 << 10, 128<<10 + 1},
		{1 << 20, 1<<20 + 1},
	} {
		for _, length := range []int{2 * mib, -1} {
			in := withRoom(t, Limits{Memory: 256 * mib})
			const senders = 4
			for range senders {
				in.stand(length, test.sent)
			}
			in.holds(senders, senders*(test.holds+ownMemory))
			if a := in.post(strings.Repeat("x", 100<<10)); a.status != 202 {
				t.Errorf("beside them: %+v", a)
			}
		}
	}
}

// Bodies that arrive and bodies that wait for the brokers are bounded together.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	in := withRoom(t, Limits{Memory: 4*mib + mib/2, AddressBytes: 5 * mib})
	hold, entered := make(chan struct{}), make(chan struct{}, 1)
	release := sync.OnceFunc(func() { close(hold) })
	defer release() // a test that fails half-way must not leave the server waiting
	in.log.answer = func(ctx context.Context) error {
		select {
		case entered <- struct{}{}:
		case <-ctx.Done():
		}
		<-hold
		return nil
	}
	answers := make(chan answer, 2)
	large := strings.Repeat("x", mib+mib/2)
	go func() { answers <- in.post(large) }()
	in.wait(entered)
	if a := in.post(large); a.status != 503 || a.header.Get("Retry-After") == "" || in.count("unavailable", "in_flight") != 1 {
		t.Errorf("over the memory: %+v", a)
	}
	go func() { answers <- in.post("1") }() // there is room for this one
	in.wait(entered)
	release()
	for range 2 {
		if a := <-answers; a.status != 202 {
			t.Errorf("%+v", a)
		}
	}
	in.empty()
}

// A body that is moved to a larger buffer is in memory twice, and both count: else the memory would be exceeded by a half.
func TestBothBuffersCount(t *testing.T) {
	t.Parallel()
	in := withRoom(t, Limits{Memory: 5 * mib, SmallMemory: mib + mib/2, AddressBytes: 5 * mib, YieldAfter: time.Hour})
	in.stand(2*mib, mib)
	in.holds(1, mib+1+ownMemory)
	// 1.7 MiB fit beside it, but not with the 0.85 MiB of the buffer before.
	if a := in.post(strings.Repeat("x", mib+mib*7/10)); a.status != 503 || in.count("unavailable", "in_flight") != 1 {
		t.Errorf("where there is room for its last buffer alone: %d", a.status)
	}
	if a := in.post(strings.Repeat("x", mib+mib/2)); a.status != 202 {
		t.Errorf("where there is room for its last two buffers: %+v", a)
	}
	in.holds(1, mib+1+ownMemory)
}

// Many short header lines take more memory than they have bytes, and a buffer that is moved does not set that free.
func TestHeadersAreHeld(t *testing.T) {
	t.Parallel()
	headers := http.Header{}
	for i := range mostHeaderLines {
		headers.Set(fmt.Sprintf("X-%03d", i), strings.Repeat("v", 160))
	}
	const held = mostHeaderLines * (5 + 160 + headerLine)
	r := newRoom(Config{MaxBody: mib}.withDefaults().Limits)
	a := &arrival{}
	if err := r.enter(a, nil, headers, netip.Addr{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	used := func(want int64, when string) {
		t.Helper()
		if got, _, _ := r.usage(); got != want {
			t.Errorf("%s: %d bytes are held, want %d", when, got, want)
		}
	}
	used(ownMemory+held-usualHeaders, "at first")
	if err := r.grow(a, 1000); err != nil {
		t.Fatal(err)
	}
	if err := r.moved(a, 1000); err != nil {
		t.Fatal(err)
	}
	used(ownMemory+held-usualHeaders+1000, "in a larger buffer")
	r.leave(a)
	used(0, "at the end")
}

// From a larger buffer's promise until the body is in it, an arrival holds both buffers; after that, what it has.
func TestArrivalHoldsWhatIsAllocated(t *testing.T) {
	t.Parallel()
	h := &Handler{c: Config{MaxBody: 25 * mib}.withDefaults()}
	h.room = newRoom(h.c.Limits)
	for _, most := range []int64{4<<10 + 1, 10_000, 64<<10 + 1, 64<<10 + 2, 100_000, 5_000_001, 25*mib + 1} {
		a := &arrival{}
		if err := h.room.enter(a, nil, nil, netip.Addr{}, time.Now()); err != nil {
			t.Fatal(err)
		}
		has := int64(smallBuffer)
		for had := int64(0); has < most; {
			size := h.grown(has, most)
			if size <= has || size > 4*has+1 || has > 64<<10 && size > 2*has || size > most {
				t.Fatalf("from %d to %d, of at most %d", has, size, most)
			}
			err := h.room.grow(a, size)
			if used, _, _ := h.room.usage(); err != nil || used != ownMemory+had+size || size == most && most > 128<<10 && used > ownMemory+most*3/2+1 {
				t.Fatalf("%d bytes are held with buffers of %d and %d: %v", used, had, size, err)
			}
			err = h.room.moved(a, size)
			if used, large, _ := h.room.usage(); err != nil || used != ownMemory+size || large != map[bool]int64{true: used}[size > 64<<10+1] {
				t.Fatalf("%d bytes are held, %d by large bodies, with a buffer of %d: %v", used, large, size, err)
			}
			had, has = size, size
		}
		h.room.leave(a)
	}
}

// Large bodies, however many, leave small ones their part.
func TestLargeBodiesLeaveRoomForSmallOnes(t *testing.T) {
	t.Parallel()
	in := withRoom(t, Limits{Memory: 7 * mib, SmallMemory: 3*mib + mib/2, AddressBytes: 7 * mib, YieldAfter: time.Hour})
	first, second := in.stand(2*mib, mib), in.stand(2*mib, mib)
	in.holds(2, 2*(mib+1+ownMemory))
	third := in.stand(2*mib, 2*mib-1)
	if got := in.answered(third); got != 503 || in.count("unavailable", "in_flight") != 1 {
		t.Errorf("a large one too many: %d", got)
	}
	for _, size := range []int{1, 5000, 60_000, 64 << 10} {
		if a := in.post(strings.Repeat("x", size)); a.status != 202 {
			t.Errorf("%d bytes beside large ones: %+v", size, a)
		}
	}
	for _, status := range []<-chan int{first, second} {
		select {
		case got := <-status:
			t.Errorf("one that had room was answered %d", got)
		default:
		}
	}
}

// Small bodies that stand still and fill all of the memory shut out no large one: beyond their own part they give way. Within it they
// stay, whatever large ones come.
func TestSmallBodiesLeaveRoomForLargeOnes(t *testing.T) {
	t.Parallel()
	const count, each, part = 92, 60<<10 + 1 + ownMemory, 2 * mib
	in := withRoom(t, Limits{Memory: 8 * mib, SmallMemory: part, AddressBytes: 8 * mib, YieldAfter: 20 * time.Millisecond})
	for range count {
		in.stand(60<<10, 17<<10)
	}
	in.holds(count, count*each)
	<-time.After(30 * time.Millisecond)
	for _, size := range []int{200 << 10, mib} {
		if a := in.post(strings.Repeat("x", size)); a.status != 202 {
			t.Errorf("%d bytes beside small ones: %+v", size, a)
		}
	}
	for range 8 { // more than fit, each of which may displace the one before
		in.stand(2*mib, mib)
		<-time.After(25 * time.Millisecond)
	}
	if used, large, _ := in.handler.room.usage(); used-large < part-each || large > 6*mib {
		t.Errorf("small ones have kept %d bytes, large ones have taken %d", used-large, large)
	}
}

// Where there is no room, what has been on its way for long gives way to what comes.
func TestOldOnesGiveWay(t *testing.T) {
	t.Parallel()
	const each, memory = 16<<10 + ownMemory, 4*mib + mib/4
	for _, test := range []struct {
		name         string
		length, sent int
		holds        int64
		count        int
		comes        int
	}{
		{"small to small", 60_000, 5000, each, memory / each, 60_000},
		{"large to large", 2 * mib, mib, mib + 1 + ownMemory, 2, mib},
	} {
		in := withRoom(t, Limits{Memory: memory, SmallMemory: mib, AddressBytes: 8 * mib, YieldAfter: 20 * time.Millisecond})
		var standing []<-chan int
		for i := range test.count {
			standing = append(standing, in.stand(test.length, test.sent))
			if i == 0 { // the oldest
				in.holds(1, test.holds)
			}
		}
		in.holds(test.count, int64(test.count)*test.holds)
		<-time.After(30 * time.Millisecond) // from now on any of them may be asked to give way
		for range 5 {
			if a := in.post(strings.Repeat("x", test.comes)); a.status != 202 {
				t.Errorf("%s: %+v", test.name, a)
			}
		}
		if got := in.answered(standing[0]); got != 503 {
			t.Errorf("%s: the one that gave way was answered %d", test.name, got)
		}
		if in.count("unavailable", "displaced") == 0 || in.count("unavailable", "in_flight") != 0 {
			t.Errorf("%s: counted otherwise: %s", test.name, in.lines)
		}
	}
}

// An address has a part only: of connections and of bytes. Others do not notice.
func TestAddressesAreBounded(t *testing.T) {
	t.Parallel()
	in := withRoom(t, Limits{AddressConnections: 3, AddressBytes: 4 * mib, YieldAfter: time.Hour,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	const xff = "X-Forwarded-For"
	for range 3 {
		in.stand(100, 10, xff, "192.0.2.1")
	}
	in.holds(3, 3*ownMemory)
	if got := in.answered(in.stand(100, 10, xff, "192.0.2.1")); got != 429 || in.count("throttled", "address_connections") != 1 {
		t.Errorf("a connection too many: %d", got)
	}
	if a := in.post("1", xff, "192.0.2.1"); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("a connection too many: %+v", a)
	}
	in.stand(2*mib, 2*mib-1, xff, "2001:db8::1")
	in.holds(4, 3*ownMemory+2*mib+1+ownMemory)
	if got := in.answered(in.stand(2*mib, 2*mib-1, xff, "2001:db8::2")); got != 429 || in.count("throttled", "address_bytes") != 1 {
		t.Errorf("bytes too many: %d", got)
	}
	for _, other := range []string{"192.0.2.2", "2001:db8:0:1::1"} {
		if a := in.post(strings.Repeat("x", mib), xff, other); a.status != 202 {
			t.Errorf("from %s: %+v", other, a)
		}
	}
}

// An address that is at its limit has its own oldest ones give way, so that those behind one proxy do not shut each other out.
func TestAddressMakesRoomForItself(t *testing.T) {
	t.Parallel()
	in := withRoom(t, Limits{AddressConnections: 3, YieldAfter: time.Millisecond})
	var standing []<-chan int
	for i := range 3 {
		standing = append(standing, in.stand(100, 10))
		in.holds(i+1, int64(i+1)*ownMemory)
	}
	<-time.After(2 * time.Millisecond)
	if a := in.post("1"); a.status != 202 {
		t.Errorf("%+v", a)
	}
	if got := in.answered(standing[0]); got != 429 || in.count("throttled", "address_connections") != 1 {
		t.Errorf("the oldest was answered %d", got)
	}
}

func TestAddressOf(t *testing.T) {
	t.Parallel()
	l := Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"),
		netip.MustParsePrefix("::ffff:172.16.0.0/108"), netip.MustParsePrefix("fe80::/10")}}
	for _, test := range []struct {
		remote    string
		forwarded []string
		want      string
	}{
		{"192.0.2.1:1234", nil, "192.0.2.1"},
		{"192.0.2.1:1234", []string{"198.51.100.1"}, "192.0.2.1"}, // anybody can say that
		{"[2001:db8:1:2:3:4:5:6]:1234", nil, "2001:db8:1:2::"},
		{"[::ffff:192.0.2.1]:1234", nil, "192.0.2.1"},
		{"10.0.0.1:1234", nil, "10.0.0.1"},
		{"10.0.0.1:1234", []string{"198.51.100.1"}, "198.51.100.1"},
		{"[::ffff:10.0.0.1]:1234", []string{"198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1:1234", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1"},             // the sender wrote the first
		{"10.0.0.1:1234", []string{"1.1.1.1", "198.51.100.1, 10.0.0.7"}, "198.51.100.1"}, // two proxies
		{"10.0.0.1:1234", []string{"198.51.100.1:555, [fd00::1]:80"}, "198.51.100.1"},    // with ports
		{"10.0.0.1:1234", []string{"2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::"},            // of IPv6
		{"10.0.0.1:1234", []string{"198.51.100.1, nonsense"}, "10.0.0.1"},                // the last hop that is known
		{"10.0.0.1:1234", []string{"198.51.100.1, nonsense, 10.0.0.2"}, "10.0.0.2"},      // also behind another
		{"10.0.0.1:1234", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},                    // all of them trusted
		{"172.17.0.1:1234", []string{"198.51.100.1"}, "198.51.100.1"},                    // its network is written as one of IPv6
		{"[::ffff:172.17.0.1]:1234", []string{"198.51.100.1"}, "198.51.100.1"},           //
		{"172.32.0.1:1234", []string{"198.51.100.1"}, "172.32.0.1"},                      // beyond it
		{"[fe80::1%eth0]:1234", []string{"198.51.100.1"}, "198.51.100.1"},                // with a zone
		{"10.0.0.1:1234", []string{"198.51.100.1, fe80::2%eth0"}, "198.51.100.1"},        // also further on
		{"10.0.0.1:1234", []string{"198.51.100.1, [fd00::1]"}, "198.51.100.1"},           // with brackets
		{"10.0.0.1:1234", []string{"198.51.100.1, [fd00::1"}, "10.0.0.1"},                // with half of them
		{"[64:ff9b::c633:6401]:1234", nil, "64:ff9b::c633:6401"},                         // NAT64
		{"@", []string{"198.51.100.1"}, "invalid IP"},                                    // a socket without addresses
		{"[fe80::1%eth0]:1234", nil, "fe80::"},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = test.remote, test.forwarded
		if got := l.AddressOf(r).String(); got != test.want {
			t.Errorf("%s forwarded for %q counts for %s, want %s", test.remote, test.forwarded, got, test.want)
		}
	}
}

// A body that comes slower than it has to is ended, and answered 408. One that keeps the pace is not, whatever it takes.
func TestPace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		rate  int // bytes a second
		after time.Duration
		ends  time.Duration // 0: never
	}{
		{"nothing", 0, 0, 5 * time.Second},
		{"a byte a second", 1, 0, 5 * time.Second},
		{"nearly enough", 700, 0, 5 * time.Second},
		{"enough", 1300, 0, 0},
		{"much, and then nothing", 100_000, 3 * time.Second, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRoom(Limits{Pace: 1000, Grace: 5 * time.Second}.WithDefaults(mib))
			set := make(chan deadline, 1)
			a, begin := &arrival{}, time.Now()
			if err := r.enter(a, deadlines{set: set}, nil, netip.Addr{}, begin); err != nil {
				t.Fatal(err)
			}
			bytes := 0
			for second := range 30 {
				if passed := time.Duration(second) * time.Second; test.after == 0 || passed < test.after {
					bytes += test.rate
				}
				a.has(bytes)
				<-time.After(time.Second)
			}
			select {
			case d := <-set:
				if took := d.set.Sub(begin); took != test.ends || r.ended(a, nil) != errPace {
					t.Errorf("%s: ended after %v, want %v: %v", test.name, took, test.ends, r.ended(a, nil))
				}
			default:
				if test.ends != 0 {
					t.Errorf("%s: not ended", test.name)
				}
			}
			r.leave(a)
			<-time.After(5 * time.Second)
			if used, _, arriving := r.usage(); used != 0 || arriving != 0 || r.looks {
				t.Errorf("%s: %d bytes held, %d arrive, looked at %t", test.name, used, arriving, r.looks)
			}
		})
	}
}

// A process that stood still blames no sender for it, neither for the pace nor for what it did not read in time.
func TestPaceOfAProcessThatStoodStill(t *testing.T) {
	t.Parallel()
	r := newRoom(Limits{Grace: time.Second}.WithDefaults(mib))
	a := &arrival{}
	if err := r.enter(a, deadlines{}, nil, netip.Addr{}, time.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.due = time.Now().Add(-lookEvery - time.Millisecond) // the timer should have fired then
	r.mu.Unlock()
	if err := r.ended(a, os.ErrDeadlineExceeded); err != errStood {
		t.Errorf("a body that was not read in time, before the pace is looked at: %v", err)
	}
	r.look()
	if err := r.ended(a, nil); err != nil {
		t.Errorf("after a minute in which nothing ran: %v", err)
	}
	if err := r.ended(a, os.ErrDeadlineExceeded); err != errStood {
		t.Errorf("a body that was not read in time, behind that: %v", err)
	}
	next := &arrival{}
	if err := r.enter(next, deadlines{}, nil, netip.Addr{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := r.ended(next, os.ErrDeadlineExceeded); err != os.ErrDeadlineExceeded {
		t.Errorf("a body that came later: %v", err)
	}
	r.leave(a)
	r.leave(next)
}

// deadlines is a response whose connection notes the deadlines of its reads.
type deadlines struct {
	http.ResponseWriter
	set chan deadline
}

type deadline struct{ at, set time.Time }

func (d deadlines) SetReadDeadline(at time.Time) error {
	d.set <- deadline{at, time.Now()}
	return nil
}

// From outside: the answer to a body that stands still is 408, long before the read timeout.
func TestSlowBodiesAreAnswered(t *testing.T) {
	t.Parallel()
	in := setup(t, func(c *Config, _ *Source) {
		c.ReadTimeout, c.Limits = time.Hour, Limits{Grace: 10 * time.Millisecond}
	})
	known, chunks := in.stand(1000, 10), in.stand(-1, 10)
	if a, b := in.answered(known), in.answered(chunks); a != 408 || b != 408 {
		t.Errorf("bodies that stop: %d and %d, want 408", a, b)
	}
	if in.count("slow", "pace") != 2 {
		t.Errorf("counted otherwise: %s", in.lines)
	}
	if !strings.Contains(in.lines.String(), "address=127.0.0.1") {
		t.Errorf("no line says whose bodies are slow: %s", in.lines)
	}
	in.empty()
}

func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]Limits{
		"memory smaller than a body":           {Memory: mib},
		"small memory leaves too little":       {Memory: 4 * mib, SmallMemory: 3 * mib},
		"an address has too little":            {AddressBytes: mib},
		"small memory more than all":           {Memory: 4 * mib, SmallMemory: 5 * mib},
		"small bodies smaller than the buffer": {SmallBody: 100},
		"no connection":                        {AddressConnections: -1},
	} {
		_, err := New(Config{Sources: func(string, string) (*Source, bool) { return nil, false }, Log: &fakeLog{}, MaxBody: 2 * mib, Limits: l})
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, maxBody := range []int64{1, mib, 25 * mib, 900 * mib} {
		if l := (Limits{}).WithDefaults(maxBody); l.validate(maxBody) != nil || l.LargestBody() < maxBody {
			t.Errorf("the defaults do not fit a body of %d: %+v", maxBody, l)
		}
	}
}

// Whatever comes, grows, arrives and goes at once: in the end nothing is held, and never more than there is.
func TestRoomIsConsistent(t *testing.T) {
	t.Parallel()
	l := Limits{Memory: 8 * mib, AddressConnections: 6, YieldAfter: 50 * time.Microsecond}.WithDefaults(2 * mib)
	r := newRoom(l)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := range 500 {
				a := &arrival{}
				err := r.enter(a, deadlines{set: make(chan deadline, 9)}, nil, netip.AddrFrom4([4]byte{10, 0, 0, byte(i % 3)}), time.Now())
				for size := int64(16 << 10); err == nil && size < int64(n%8)*300<<10; size *= 4 {
					if err = r.grow(a, size); err == nil {
						err = r.moved(a, size)
					}
				}
				if n%3 == 0 { // it is unpacked
					r.unpacks(a)
					for size := int64(4 << 10); err == nil && size <= 1<<20; size *= 4 {
						if err = r.grow(a, size); err == nil {
							err = r.moved(a, size)
						}
					}
				}
				if err == nil {
					err = r.arrived(a)
				}
				if used, large, _ := r.usage(); used > l.Memory || large > l.Memory-l.SmallMemory || used < large || large < 0 {
					t.Errorf("%d bytes are held, %d by large bodies", used, large)
				}
				if err != nil && !errors.Is(err, errFull) && !errors.Is(err, errDisplaced) && !errors.Is(err, errConnections) && !errors.Is(err, errBytes) {
					t.Error(err)
				}
				r.leave(a)
			}
		})
	}
	wg.Wait()
	if used, large, arriving := r.usage(); used != 0 || large != 0 || arriving != 0 || len(r.senders) != 0 || r.sizes[0].oldest != nil || r.sizes[1].newest != nil {
		t.Errorf("%d bytes are held, %d by large bodies, %d arrive, %d senders", used, large, arriving, len(r.senders))
	}
}
