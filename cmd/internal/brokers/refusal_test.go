package brokers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/forebay-io/forebay/schemas/record"
)

// TestLoginInTheClear: what shows the secret goes to brokers on this machine alone, unless the connection is encrypted.
func TestLoginInTheClear(t *testing.T) {
	t.Parallel()
	for _, m := range []sasl.Mechanism{plain.Auth{User: "u", Pass: "pencil"}.AsMechanism(), oauth.Auth{Token: "pencil"}.AsMechanism(), scram.Auth{User: "u", Pass: "pencil"}.AsSha256Mechanism()} {
		for address, here := range map[string]bool{
			"127.0.0.1:9092": true, "[::1]:9092": true, "localhost:9092": true, "[::ffff:127.0.0.1]:9092": true, "127.0.0.1": true, "[::1]": true,
			"kafka-1.example.com:9092": false, "10.0.0.7:9092": false, "[fd00::1]:9092": false, "127.0.0.1.example.com:9092": false, "": false,
		} {
			for _, encrypted := range []bool{false, true} {
				_, first, err := Login(m, encrypted).Authenticate(context.Background(), address)
				if may := here || encrypted || strings.HasPrefix(m.Name(), "SCRAM"); may != (err == nil) || !may && first != nil {
					t.Errorf("%s to %q, encrypted %t: %q, %v", m.Name(), address, encrypted, first, err)
				}
				if err != nil && (strings.Contains(err.Error(), "pencil") || !strings.Contains(err.Error(), "write kafka.tls: {enabled: true}")) {
					t.Errorf("the error shows the secret, or not what to do: %v", err)
				}
			}
		}
	}
}

// TestExplainSaysARightOnce: an error that says already which right is missing is left as it is.
func TestExplainSaysARightOnce(t *testing.T) {
	t.Parallel()
	right := &record.Right{User: "user rightless", Operation: "Write", Resource: "topic t", Err: kerr.TopicAuthorizationFailed}
	said := fmt.Errorf("%w: %s", right, right.Lack())
	if got := Explain(said); got != said {
		t.Errorf("%v", got)
	}
	if got := Explain(right); !strings.HasSuffix(got.Error(), "`forebay acls export` prints what each role needs: user rightless has no right Write on topic t") {
		t.Errorf("%v", got)
	}
}

// TestARefusedLoginIsOneError: those who try again after one ask for the brokers' code, whichever way the client has heard of it.
func TestARefusedLoginIsOneError(t *testing.T) {
	t.Parallel()
	session, _, err := Login(oauth.Auth{Token: "pencil"}.AsMechanism(), true).Authenticate(t.Context(), "kafka:9092")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = session.Challenge([]byte(`{"status":"invalid_token"}`)); !errors.Is(err, kerr.SaslAuthenticationFailed) || errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("%v", err)
	}
}
