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
)

// deployment is a configuration of forebay and the environment variables of its processes.
type deployment struct {
	config   string // the file
	postgres string
	intake   string // the addresses that the file may name as ${env:INTAKE} and ${env:OPERATOR}
	operator string
}

// program is forebay itself, in a process of this program.
func (d *deployment) program(ctx context.Context, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{forebayCommand}, args...)...)
	cmd.Env = append(os.Environ(), "FOREBAY_POSTGRES_URL="+d.postgres, "INTAKE="+d.intake, "OPERATOR="+d.operator)
	return cmd, nil
}

// command runs one of forebay's commands to its end.
func (d *deployment) command(ctx context.Context, args ...string) error {
	_, err := d.ask(ctx, args...)
	return err
}

// ask runs one of forebay's commands to its end and returns what it printed.
func (d *deployment) ask(ctx context.Context, args ...string) ([]byte, error) {
	cmd, err := d.program(ctx, args...)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe() // it ends when its input does
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("forebay %s: %w: %s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out, nil
}

// process is a running `forebay serve`.
type process struct {
	cmd  *exec.Cmd
	in   io.Closer
	log  string        // the file with what it said
	gone chan struct{} // closed when it has ended
}

// serve starts a process of some roles.
func (d *deployment) serve(ctx context.Context, roles string) (*process, error) {
	cmd, err := d.program(ctx, "--log-level", "warn", "serve", "-c", d.config, "--roles", roles, "--drain", "1s")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(d.config + "." + roles + ".log")
	if err != nil {
		return nil, err
	}
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	p := &process{cmd: cmd, in: in, log: log.Name(), gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		_ = cmd.Wait() // how it ended is in its log
		log.Close()
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) stop() {
	p.in.Close()
	<-p.gone
}

// waitReady waits until the process at the operator's address says that it is.
func (d *deployment) waitReady(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		if status, _, err := get(ctx, "http://"+d.operator+"/readyz"); err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-p.gone:
			return errors.New("it has ended")
		default:
		}
		if err := waitUntil(ctx, time.Now().Add(50*time.Millisecond)); err != nil {
			return fmt.Errorf("it does not become ready: %w", err)
		}
	}
}

// explain adds the end of the process's log to an error.
func (p *process) explain(err error) error {
	text, _ := os.ReadFile(p.log)
	return fmt.Errorf("%w; its log ends in:\n%s", err, text[max(0, len(text)-2048):])
}

// openActions is how many open actions the stream process says that its lanes have loaded; 0 before it says anything.
func (d *deployment) openActions(ctx context.Context) (n int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.operator+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil // it does not listen yet
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "} ")
		if !ok || !strings.HasPrefix(name, "forebay_lane_open_actions{") {
			continue
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		n += int(f)
	}
	return n, lines.Err()
}
