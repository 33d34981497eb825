package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

type healthcheckCmd struct {
	fileFlags
	Ready   bool          `help:"Ask whether it can work (/readyz), too, and not only whether it lives (/livez)."`
	Role    string        `placeholder:"ROLE" help:"With --ready: of one role, intake or stream."`
	Timeout time.Duration `default:"3s" help:"Longest time to wait for an answer."`
}

// Run asks the process of this machine that runs by the file, as the HEALTHCHECK of a container does. It needs no secret of the file.
func (c *healthcheckCmd) Run(e *env) error {
	if c.Role != "" && !c.Ready {
		return usageError("--role goes with --ready")
	}
	ctx, cancel := context.WithTimeout(e.ctx, c.Timeout)
	defer cancel()
	at, err := c.at()
	if err != nil {
		return err
	}
	at.Path = "/livez"
	if c.Ready {
		at.Path = "/readyz"
		if c.Role != "" {
			at.RawQuery = url.Values{"role": {c.Role}}.Encode()
		}
	}
	return api.Healthy(ctx, at.String())
}

// at is where the process is asked from its own machine: listen.health, else listen.operator. Nothing else of the file is judged: what is wrong
// with an edit keeps a running process from taking it, and is no reason to have it ended.
func (c *healthcheckCmd) at() (*url.URL, error) {
	var file struct {
		Listen   struct{ Health, Operator string }
		Operator struct{ TLS *yaml.Node }
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", c.File, err)
	}
	address := cmp.Or(file.Listen.Health, file.Listen.Operator, strings.TrimPrefix(usualURL, "http://"))
	if address, err = c.resolved(address); err != nil {
		return nil, err
	}
	scheme := "http"
	if file.Listen.Health == "" && file.Operator.TLS != nil {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Unmap().Is6() {
			host = "::1"
		}
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}, nil
}

var reference = regexp.MustCompile(`\$\{(env|file):([^}]+)\}`)

// resolved returns a text of the file with what its references stand for.
func (c *healthcheckCmd) resolved(text string) (string, error) {
	var failed error
	text = reference.ReplaceAllStringFunc(text, func(r string) string {
		kind, name := reference.FindStringSubmatch(r)[1], reference.FindStringSubmatch(r)[2]
		if kind == "env" {
			return os.Getenv(name)
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(c.File), name)
		}
		value, err := os.ReadFile(name)
		failed = errors.Join(failed, err)
		return strings.TrimSpace(string(value))
	})
	return text, failed
}
