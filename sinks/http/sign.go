package httpsink

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// secrets are all that sign.
func (c *Config) secrets() []schemas.Secret {
	if c.Secret.IsZero() {
		return c.Secrets
	}
	return append([]schemas.Secret{c.Secret}, c.Secrets...)
}

// signingKeys decodes secrets of Standard Webhooks v1. Errors show nothing of them.
func signingKeys(secrets []schemas.Secret) ([][]byte, error) {
	var keys [][]byte
	for i, s := range secrets {
		text, ok := strings.CutPrefix(s.Reveal(), "whsec_")
		if !ok {
			return nil, fmt.Errorf("secret %d does not begin with whsec_", i+1)
		}
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("secret %d is not base64 behind whsec_", i+1)
		}
		if len(key) < 24 || len(key) > 64 {
			return nil, errors.New("a secret holds 24 to 64 bytes behind whsec_")
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// sign gives the value of webhook-signature: one v1 signature per key over "id.timestamp.body".
func sign(keys [][]byte, id, stamp string, body []byte) string {
	var b strings.Builder
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp + "."))
		mac.Write(body)
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString("v1,")
		b.WriteString(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return b.String()
}
