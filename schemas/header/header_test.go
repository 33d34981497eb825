package header

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
)

func TestCompile(t *testing.T) {
	t.Parallel()
	const value = "s3cr3t"
	for _, test := range []struct {
		names []string
		value string
		want  string // empty: taken
	}{
		{[]string{"authorization", "X-A!#$%&'*+.^_`|~0"}, value, ""},
		{[]string{"x-a"}, "tab\tand ü", ""},
		{[]string{""}, value, `header name "" is not valid`},
		{[]string{"a b"}, value, `header name "a b" is not valid`},
		{[]string{"a:"}, value, "is not valid"},
		{[]string{"ä"}, value, "is not valid"},
		{[]string{"x-a"}, value + "\r\nX: 1", "header X-A has a value with control characters"},
		{[]string{"x-a"}, value + "\x7f", "control characters"},
		{[]string{"x-a", "X-A"}, value, "header X-A is given twice"},
		{[]string{"host"}, value, "header Host is set by forebay"},
		{[]string{"TE"}, value, "header Te is set by forebay"},
		{[]string{"proxy-authorization"}, value, "header Proxy-Authorization is set by forebay"},
		{[]string{"idempotency-key"}, value, "header Idempotency-Key is set by forebay"},
		{[]string{"idempotency-keys"}, value, ""},
		{[]string{"CE-id"}, value, "header Ce-Id is set by forebay"},
		{[]string{"cent"}, value, ""},
	} {
		in, want := map[string]schemas.Secret{}, http.Header{}
		for _, name := range test.names {
			in[name] = schemas.NewSecret(test.value)
			want.Set(name, test.value)
		}
		got, err := Compile(in, "Idempotency-Key", "Ce-")
		switch {
		case test.want == "" && (err != nil || !cmp.Equal(got, want)):
			t.Errorf("%q: %v, %v", test.names, got, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), value)):
			t.Errorf("%q: %v, want %q", test.names, err, test.want)
		}
	}
}
