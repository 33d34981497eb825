package app

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// A port that is taken: the key to change, with its line, for each listener.
func TestTakenPortNamesTheKey(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := taken.Addr().String()
	const listen = `listen: {intake: "127.0.0.1:0", operator: "127.0.0.1:0"}`
	for key, line := range map[string]string{
		"intake":   fmt.Sprintf(`listen: {intake: %q, operator: "127.0.0.1:0"}`, at),
		"operator": fmt.Sprintf(`listen: {intake: "127.0.0.1:0", operator: %q}`, at),
		"health":   fmt.Sprintf(`listen: {intake: "127.0.0.1:0", operator: "127.0.0.1:0", health: %q}`, at),
	} {
		text := strings.Replace(fmt.Sprintf(deploymentText, "127.0.0.1:1", "", "http://127.0.0.1:1"), listen, line, 1)
		r := &deployment{t: t, text: text}
		a, err := New(Config{File: r.load(config.RoleIntake), Roles: []config.Role{config.RoleIntake}})
		if err != nil {
			t.Fatal(err)
		}
		err = a.Start()
		want := fmt.Sprintf("forebay.yaml:4: listen.%s: %s is taken by another program: write another port, listen: {%[1]s: 127.0.0.1:PORT}, or stop that program", key, at)
		if !errors.Is(err, syscall.EADDRINUSE) || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
		if err := a.intake.log.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
