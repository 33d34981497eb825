package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// agentProcess is an agent in a process of its own.
type agentProcess struct{ *rig.Child }

func startAgent(ctx context.Context) (agentProcess, error) {
	c, err := rig.StartChild(ctx, nil, agentCommand)
	if err != nil {
		return agentProcess{}, fmt.Errorf("start the agent: %w", err)
	}
	return agentProcess{c}, nil
}

func (a agentProcess) url() string { return "http://" + a.Addr }

// came is how many deliveries have come to the agent.
func (a agentProcess) came(ctx context.Context) (int64, error) {
	_, body, err := get(ctx, a.url()+agentCount)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(body), 10, 64)
}

// waitCame waits until n deliveries have come to the agent.
func (a agentProcess) waitCame(ctx context.Context, n int64) error {
	return waitFor(ctx, func() (bool, string, error) {
		came, err := a.came(ctx)
		return came == n, fmt.Sprintf("%d of %d deliveries came to the agent", came, n), err
	})
}

// tell calls one of the agent's paths.
func (a agentProcess) tell(ctx context.Context, path string) error {
	_, _, err := get(ctx, a.url()+path)
	return err
}

// take is what has come to the agent since the last time.
func (a agentProcess) take(ctx context.Context) (fate agentReport, list []receipt, err error) {
	_, body, err := get(ctx, a.url()+agentTake)
	if err != nil {
		return fate, nil, err
	}
	in := bytes.NewReader(body)
	if err := binary.Read(in, binary.LittleEndian, &fate); err != nil {
		return fate, nil, err
	}
	list = make([]receipt, fate.Receipts)
	return fate, list, binary.Read(in, binary.LittleEndian, list)
}

// collect takes what comes to the agent until it is enough, of which enough also says what there is.
func (a agentProcess) collect(ctx context.Context, enough func(sum agentReport, came []receipt) (bool, string)) (sum agentReport, came []receipt, err error) {
	err = waitFor(ctx, func() (bool, string, error) {
		more, list, err := a.take(ctx)
		if err != nil {
			return false, "", err
		}
		came = append(came, list...)
		sum.Twice, sum.Unordered, sum.Failed, sum.Hanging = sum.Twice+more.Twice, sum.Unordered+more.Unordered, sum.Failed+more.Failed, sum.Hanging+more.Hanging
		done, state := enough(sum, came)
		return done, fmt.Sprintf("%d came: %s", len(came), state), nil
	})
	return sum, came, err
}

// onceInOrder fails if something came twice or out of order.
func (r agentReport) onceInOrder() error {
	if r.Twice > 0 || r.Unordered > 0 {
		return fmt.Errorf("%d deliveries came twice, %d out of order", r.Twice, r.Unordered)
	}
	return nil
}

func get(ctx context.Context, url string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}
