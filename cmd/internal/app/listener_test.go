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
		a := r.app(config.RoleIntake)
		err = a.Start()
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.HasPrefix(err.Error(), "forebay.yaml:4: listen."+key+": ") {
			t.Errorf("%s: %v", key, err)
		}
		if err := a.intake.log.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
