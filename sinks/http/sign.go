package httpsink

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// signingKey decodes a secret of Standard Webhooks v1; nil where there is none. Errors show nothing of it.
func signingKey(secret schemas.Secret) ([]byte, error) {
	if secret.IsZero() {
		return nil, nil
	}
	text, ok := strings.CutPrefix(secret.Reveal(), "whsec_")
	if !ok {
		return nil, errors.New("the secret does not begin with whsec_")
	}
	key, err := base64.StdEncoding.DecodeString(text)
	switch {
	case err != nil:
		return nil, errors.New("the secret is not base64 behind whsec_")
	case len(key) < 24 || len(key) > 64:
		return nil, errors.New("a secret holds 24 to 64 bytes behind whsec_")
	}
	return key, nil
}

// sign gives the value of webhook-signature: the v1 signature over "id.timestamp.body".
func sign(key []byte, id, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
