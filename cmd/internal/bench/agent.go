package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The agent's paths, and how each is answered. The agent does as little as a destination can, because it shares the machine with what is
// measured: it reads a request, notes whose it is and when it came, and answers.
const (
	agentRun   = "/run"   // 200
	agentPaid  = "/paid"  // 200, and says what the run has cost, another amount each time
	agentFirst = "/first" // 500 for ever to entity 0, 200 to the others
	agentHang  = "/hang"  // never answered
	agentFail  = "/fail"  // 500 for ever
	agentHold  = "/hold"  // 200 once those that wait may be answered
	agentLet   = "/let"   // lets those that wait now be answered
	agentOpen  = "/open"  // and all that come later, too
	agentFan   = "/fan/"  // with a number behind it: 200, and what came has the number for its kind
	agentCount = "/count" // how many deliveries have come to the first three and were answered 200, as text
	agentTake  = "/take"  // an agentReport and receipts of what came since the last call
)

// receipt is when a delivery reached the agent for the first time, or, at a sender, when the intake accepted it; by the wall clock, in
// nanoseconds.
type receipt struct {
	Delivery uint64
	At       int64
}

// agentReport is the head of agentTake's answer; as many receipts as it says follow. Everything is in little endian.
type agentReport struct {
	Receipts int64
	// Twice are deliveries that were answered 200 and came again, Unordered those that came after a later one of their
	// entity.
	Twice, Unordered int64
	// Failed and Hanging are calls answered 500 and not at all.
	Failed, Hanging int64
}

// agent is the destination of all scenarios with one.
type agent struct {
	mu       sync.Mutex
	report   agentReport
	receipts []receipt
	seen     map[uint64]bool
	last     map[uint64]uint64 // the latest delivery of each entity
	came     int
	held     chan struct{} // closed when those that wait may be answered
	open     bool          // nobody waits
}

func newAgent() *agent {
	return &agent{seen: map[uint64]bool{}, last: map[uint64]uint64{}, held: make(chan struct{})}
}

// serveAgent runs an agent until standard input is closed. It prints its address first.
func serveAgent() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		l.Close()
	}()
	a := newAgent()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go a.connection(conn)
	}
}

func (a *agent) connection(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 8<<10)
	for {
		path, delivery, err := readRequest(in)
		if err != nil {
			return // the caller has gone
		}
		if path == agentHold && !a.hold(conn, in) {
			return
		}
		status, body := a.answer(path, delivery)
		if status == 0 {
			_, _ = io.Copy(io.Discard, in) // until the caller goes
			return
		}
		head := "HTTP/1.1 " + strconv.Itoa(status) + " answer\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
		if path == agentPaid {
			head = strings.TrimSuffix(head, "\r\n") + "Forebay-Cost: 0.0" + strconv.Itoa(10+int(stepOf(delivery)%90)) + "\r\n\r\n"
		}
		if _, err := conn.Write(append([]byte(head), body...)); err != nil {
			return
		}
	}
}

// hold waits until those that wait may be answered, and reports whether the caller is still there.
func (a *agent) hold(conn net.Conn, in *bufio.Reader) bool {
	a.mu.Lock()
	held, open := a.held, a.open
	a.mu.Unlock()
	if open {
		return true
	}
	<-held
	_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond)) // a caller that has gone has closed its end
	_, err := in.Peek(1)
	_ = conn.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// answer returns the status to answer with, 0 for no answer at all, and the body.
func (a *agent) answer(path string, delivery uint64) (status int, body []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch path {
	case agentCount:
		return 200, strconv.AppendInt(nil, int64(a.came), 10)
	case agentTake:
		return 200, a.take()
	case agentLet, agentOpen:
		a.open = path == agentOpen
		close(a.held)
		a.held = make(chan struct{})
		return 200, nil
	case agentHang:
		a.report.Hanging++
		return 0, nil
	case agentFail:
		a.report.Failed++
		return 500, nil
	case agentFirst:
		if entityOf(delivery) == 0 {
			a.report.Failed++
			return 500, nil
		}
	}
	if number, ok := strings.CutPrefix(path, agentFan); ok {
		kind, err := strconv.ParseUint(number, 10, 8)
		if err != nil {
			return 404, nil
		}
		delivery |= deliveryOf(kind, 0, 0)
	}
	a.record(delivery)
	return 200, nil
}

func (a *agent) record(delivery uint64) {
	if a.seen[delivery] {
		a.report.Twice++
		return
	}
	a.seen[delivery] = true
	if line := kindAndEntityOf(delivery); a.last[line] > delivery {
		a.report.Unordered++
	} else {
		a.last[line] = delivery
	}
	a.receipts = append(a.receipts, receipt{delivery, time.Now().UnixNano()})
	a.came++
}

func (a *agent) take() []byte {
	a.report.Receipts = int64(len(a.receipts))
	var out bytes.Buffer
	_ = binary.Write(&out, binary.LittleEndian, a.report) // a buffer takes all
	_ = binary.Write(&out, binary.LittleEndian, a.receipts)
	a.report, a.receipts = agentReport{}, nil
	return out.Bytes()
}

var errRequest = errors.New("not an HTTP/1.1 request with a length")

// readRequest reads one request: its path, and the delivery in ce-deliveryid where it has one.
func readRequest(in *bufio.Reader) (path string, delivery uint64, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", 0, err
	}
	parts := bytes.Fields(line)
	if len(parts) != 3 {
		return "", 0, errRequest
	}
	path = string(parts[1])
	length := 0
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return "", 0, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case len(name) == len("ce-deliveryid") && bytes.EqualFold(name, []byte("ce-deliveryid")):
			delivery, err = strconv.ParseUint(string(value), 16, 64)
		case len(name) == len("content-length") && bytes.EqualFold(name, []byte("content-length")):
			length, err = strconv.Atoi(string(value))
		}
		if err != nil {
			return "", 0, errRequest
		}
	}
	_, err = in.Discard(length)
	return path, delivery, err
}
