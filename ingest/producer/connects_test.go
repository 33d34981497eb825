package producer

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestWhyNobodyAnswers: the client connects again and again, and keeps to itself why it cannot.
func TestWhyNobodyAnswers(t *testing.T) {
	t.Parallel()
	p, _ := setup(t, func(c *Config) {
		c.Options = append(c.Options, kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("its certificate has expired")
		}))
	})
	var err error
	for begin := time.Now(); time.Since(begin) < 2*time.Minute; {
		err = p.Append(t.Context(), time.Now().Add(time.Second), topic, event("1"))
		if errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "its certificate has expired") {
			return
		}
	}
	t.Error(err)
}
