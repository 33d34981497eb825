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
