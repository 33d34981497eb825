package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// process is a running `forebay serve`.
type process struct {
	cmd      *exec.Cmd
	in       io.Closer
	operator string        // the address of its operator listener
	log      string        // the file with what it said
	gone     chan struct{} // closed when it has ended
}

// program is forebay itself, in a process of this program, with an address for its operator listener.
func (w *stack) program(ctx context.Context, operator string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{forebayCommand}, args...)...)
	cmd.Env = append(os.Environ(), "FOREBAY_POSTGRES_URL="+w.pg.url, "INTAKE="+w.intake, "OPERATOR="+operator)
	return cmd, nil
}

// command runs one of forebay's commands to its end.
func (w *stack) command(ctx context.Context, args ...string) error {
	cmd, err := w.program(ctx, "127.0.0.1:0", args...)
	if err != nil {
		return err
	}
	in, err := cmd.StdinPipe() // it ends when its input does
	if err != nil {
		return err
	}
	defer in.Close()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("forebay %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// serve starts a process of a role, and waits until it is ready.
func (w *stack) serve(ctx context.Context, role string) (*process, error) {
	operator, err := rig.FindAddress()
	if err != nil {
		return nil, err
	}
	cmd, err := w.program(ctx, operator, "--log-level", "warn", "serve", "-c", w.config, "--roles", role, "--drain", "1s")
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(w.dir, role+".log")
	if err != nil {
		return nil, err
	}
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	p := &process{cmd: cmd, in: in, operator: operator, log: log.Name(), gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		_ = cmd.Wait() // how it ended is in its log
		log.Close()
	}()
	if err := p.waitReady(ctx); err != nil {
		p.kill()
		return nil, p.explain(err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) stop() {
	p.in.Close()
	<-p.gone
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

func (p *process) waitReady(ctx context.Context) error {
	return waitFor(ctx, func() (bool, string, error) {
		select {
		case <-p.gone:
			return false, "", errors.New("the process has ended")
		default:
		}
		status, _, err := get(ctx, "http://"+p.operator+"/readyz")
		return err == nil && status == http.StatusOK, "the process does not become ready", nil
	})
}

// explain adds the end of the process's log to an error.
func (p *process) explain(err error) error {
	if err == nil {
		return nil
	}
	text, _ := os.ReadFile(p.log)
	return fmt.Errorf("%w; its log ends in:\n%s", err, text[max(0, len(text)-2048):])
}

// metric reads a metric of the process: its values, by the labels as they are written. Without any it is empty.
func (p *process) metric(ctx context.Context, name string) (map[string]float64, error) {
	_, body, err := get(ctx, "http://"+p.operator+"/metrics")
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		labels, value, ok := strings.Cut(lines.Text(), "} ")
		if labels, of := strings.CutPrefix(labels, name+"{"); ok && of {
			if values[labels], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, fmt.Errorf("%s: %w", lines.Text(), err)
			}
		}
	}
	return values, nil
}

// openActions is how many open actions the process says that its lanes have loaded; 0 before it says anything.
func (p *process) openActions(ctx context.Context) (n int64, err error) {
	values, err := p.metric(ctx, "forebay_lane_open_actions")
	for _, v := range values {
		n += int64(v)
	}
	return n, err
}

// patience is how long something that is waited for may stay as it is.
const patience = 2 * time.Minute

// waitFor asks again and again until all is done. It gives up when the state that it is told has not changed for too long.
func waitFor(ctx context.Context, ask func() (done bool, state string, err error)) error {
	before := ""
	for deadline := time.Now().Add(patience); ; {
		done, state, err := ask()
		if done || err != nil {
			return err
		}
		if state != before {
			before, deadline = state, time.Now().Add(patience)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s; nothing has changed for %s", state, patience)
		}
		if err := waitUntil(ctx, time.Now().Add(50*time.Millisecond)); err != nil {
			return err
		}
	}
}
