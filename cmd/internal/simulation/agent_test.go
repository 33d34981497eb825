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

// manners are what an agent may do with a call.
type manner string

const (
	works     manner = "works"
	slow      manner = "slow"
	refuses   manner = "500"
	busy      manner = "503 with Retry-After"
	throttles manner = "429"
	cuts      manner = "cuts the connection"
	lies      manner = "acts and cuts the connection"
	denies    manner = "acts and says 500"
	hangs     manner = "hangs"
	actsHangs manner = "acts and hangs"
)

var manners = []manner{works, works, works, slow, slow, refuses, busy, throttles, cuts, lies, denies, hangs, actsHangs}

// manner is drawn from the seed, the event and how often it was called: the same in every run of a seed.
func (a *agent) manner(c *call) (manner, *rand.Rand) {
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
	return manners[rng.IntN(len(manners))], rng
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the connection went while it came: nobody saw a call
	}
	attempt, _ := strconv.Atoi(r.Header.Get("Forebay-Attempt"))
	agent, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("User-Agent"), "Forebay/"), " ")
	c := &call{process: agent, key: r.Header.Get("Idempotency-Key"), id: r.Header.Get("Ce-Id"), entity: r.Header.Get("Ce-Subject"),
		late: r.Header.Get("Forebay-Late") == "true", attempt: attempt, sum: sha256.Sum256(body), begin: begin}
	how, rng := a.manner(c)
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

func (a *agent) answer(w http.ResponseWriter, r *http.Request, c *call, how manner, rng *rand.Rand) {
	switch how {
	case slow:
		sleep(r.Context(), time.Duration(rng.Int64N(int64(3*time.Second))))
	case hangs, actsHangs:
		a.act(c, how == actsHangs)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case cuts, lies:
		a.act(c, how == lies)
		panic(http.ErrAbortHandler)
	case refuses, busy, throttles, denies:
		a.act(c, how == denies)
		if how == busy {
			w.Header().Set("Retry-After", "2")
		}
		a.respond(w, c, map[manner]int{refuses: 500, denies: 500, busy: 503, throttles: 429}[how])
		return
	}
	a.act(c, true)
	a.respond(w, c, http.StatusOK)
}

func (a *agent) act(c *call, really bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.acted = really
}

// respond answers, and notes whether somebody took the answer: a pipe has no room for what nobody reads.
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

func (a *agent) rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calm = true
}
