package app

import (
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestACertificateIsRenewedFileByFile: in between, when its key is another's, connections get the one before.
func TestACertificateIsRenewedFileByFile(t *testing.T) {
	t.Parallel()
	authority := rig.NewAuthority(t)
	used, renewed := authority.Issue("used", time.Hour), authority.Issue("renewed", time.Hour)
	l := &listener{name: "operator", log: slog.New(slog.DiscardHandler), lines: rate.NewLimiter(0, 0), server: &http.Server{}}
	l.encrypt(&config.OperatorTLS{CertFile: used.Cert, KeyFile: used.Key})
	shown := func() string {
		c, err := l.server.TLSConfig.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.Subject.CommonName
	}
	replace := func(file, by string) {
		text, err := os.ReadFile(by)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	replace(used.Cert, renewed.Cert)
	if name := shown(); name != "used" {
		t.Errorf("with half of a new pair: %s", name)
	}
	replace(used.Key, renewed.Key)
	if name := shown(); name != "renewed" {
		t.Errorf("with the new pair: %s", name)
	}
}
