package simulation

import (
	"crypto/sha256"
	"errors"
	"hash/fnv"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// call is what the agent saw of one attempt.
type call struct {
	process string
	key     string // Idempotency-Key
	id      string // ce-id
	entity  string // ce-subject
	late    bool
	attempt int
	sum     [32]byte
	begin   time.Time
	end     time.Time // when the answer had gone out; zero: none has
	status  int       // of that answer
	over    time.Time // when the agent was through with it, whatever came of it; zero: never
	acted   bool
}

// agent is the destination: it records every call, and is what the seed says: slow, failing, lying, hanging.
type agent struct {
	seed   uint64
	server *http.Server
	done   sync.WaitGroup

	mu    sync.Mutex
	calls []*call
	seen  map[string]int // calls by key
	calm  bool           // from now on it does what it is asked
	bad   map[string]bool
	last  time.Time
}

func startAgent(n *network, seed uint64, bad map[string]bool) (*agent, error) {
	a := &agent{seed: seed, seen: map[string]int{}, bad: bad}
	listener, err := n.Listen("tcp", "127.0.0.1:9000")
	if err != nil {
		return nil, err
	}
	a.server = &http.Server{Handler: a, ErrorLog: log.New(io.Discard, "", 0)}
	a.done.Go(func() {
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	})
	return a, nil
}

func (a *agent) stop() {
	a.server.Close()
	a.done.Wait()
}

// behaviour is what the agent does with a call.
type behaviour string

const (
	works     behaviour = "works"
	slow      behaviour = "slow"
	refuses   behaviour = "500"
	busy      behaviour = "503 with Retry-After"
	throttles behaviour = "429"
	cuts      behaviour = "cuts the connection"
	lies      behaviour = "acts and cuts the connection"
	denies    behaviour = "acts and says 500"
	hangs     behaviour = "hangs"
	actsHangs behaviour = "acts and hangs"
)

var behaviours = []behaviour{works, works, works, slow, slow, refuses, busy, throttles, cuts, lies, denies, hangs, actsHangs}

// behaviourOf draws what the agent does with a call from the seed, the event and how often it was called: the same in every run of a seed.
func (a *agent) behaviourOf(c *call) (behaviour, *rand.Rand) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.seen[c.key]
	a.seen[c.key]++
	h := fnv.New64a()
	io.WriteString(h, c.id)
	rng := rand.New(rand.NewPCG(a.seed, h.Sum64()+uint64(n)))
	if a.calm || !a.bad[c.entity] || n >= 4 {
		return works, rng
	}
	return behaviours[rng.IntN(len(behaviours))], rng
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the connection was cut while the request came: that is no call
	}
	attempt, _ := strconv.Atoi(r.Header.Get("Forebay-Attempt"))
	agent, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("User-Agent"), "Forebay/"), " ")
	c := &call{process: agent, key: r.Header.Get("Idempotency-Key"), id: r.Header.Get("Ce-Id"), entity: r.Header.Get("Ce-Subject"),
		late: r.Header.Get("Forebay-Late") == "true", attempt: attempt, sum: sha256.Sum256(body), begin: begin}
	how, rng := a.behaviourOf(c)
	a.mu.Lock()
	a.calls = append(a.calls, c)
	a.last = time.Now()
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		c.over = time.Now()
	}()
	a.answer(w, r, c, how, rng)
}

func (a *agent) answer(w http.ResponseWriter, r *http.Request, c *call, how behaviour, rng *rand.Rand) {
	switch how {
	case slow:
		sleep(r.Context(), time.Duration(rng.Int64N(int64(3*time.Second))))
	case hangs, actsHangs:
		a.noteActed(c, how == actsHangs)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case cuts, lies:
		a.noteActed(c, how == lies)
		panic(http.ErrAbortHandler)
	case refuses, busy, throttles, denies:
		a.noteActed(c, how == denies)
		if how == busy {
			w.Header().Set("Retry-After", "2")
		}
		a.respond(w, c, map[behaviour]int{refuses: 500, denies: 500, busy: 503, throttles: 429}[how])
		return
	}
	a.noteActed(c, true)
	a.respond(w, c, http.StatusOK)
}

// noteActed notes whether a call took effect.
func (a *agent) noteActed(c *call, really bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.acted = really
}

// respond answers, and notes the answer if the caller has read it: a write to a pipe succeeds only then.
func (a *agent) respond(w http.ResponseWriter, c *call, status int) {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
	err := http.NewResponseController(w).Flush()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		c.end, c.status = time.Now(), status
		a.last = c.end
	}
}

// calmDown has the agent answer 200 to every call from now on.
func (a *agent) calmDown() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calm = true
}
