package console

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// words runs a command in a shell in which curl prints what it was given, and returns that: a line for each call.
func words(t *testing.T, command string) (calls [][]string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `curl() { for word; do printf '%s\000' "$word"; done; printf '\001'; }`+"\n"+command).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s in\n%s", err, out, command)
	}
	for call := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x01"), "\x01") {
		calls = append(calls, strings.Split(strings.TrimSuffix(call, "\x00"), "\x00"))
	}
	return calls
}

// TestCurl: the command says to a shell what it says to a reader, whatever a sender has written, and has what destinations get.
func TestCurl(t *testing.T) {
	t.Parallel()
	const nasty = `@it's "$(touch /tmp/x)" ` + "`id`" + ` \ ; & | é %`
	headers := []api.DeadHeader{{Key: "ce_id", Value: nasty}, {Key: "ce_secretnumber", Value: "1"}, {Key: "http_x-github-event", Value: "push"}, {Key: "ce_type", Value: "com.github.push"}}
	want := []string{"http://127.0.0.1:8000/", "-H", `ce-id: @it's%20%22$(touch%20/tmp/x)%22%20` + "`id`" + `%20\%20;%20&%20|%20%C3%A9%20%25`, "-H", "ce-type: com.github.push", "-H", "Content-Type: text/plain; x='1'"}
	raw := &api.InboxRecord{ContentType: "text/plain; x='1'", Headers: headers}
	for name, tt := range map[string]struct {
		data string
		want [][]string
	}{
		"text":    {nasty + "\n\tend", [][]string{append(slices.Clip(want), "--data-raw", nasty+"\n\tend")}},
		"none":    {"", [][]string{append(slices.Clip(want), "--data-raw", "")}},
		"unshown": {"a\u202eb", [][]string{{"-o", "body", "http://127.0.0.1:9090/v1/it's"}, append(slices.Clip(want), "--data-binary", "@body")}},
		"bytes":   {"\xff\x00", [][]string{{"-o", "body", "http://127.0.0.1:9090/v1/it's"}, append(slices.Clip(want), "--data-binary", "@body")}},
		"long":    {strings.Repeat("x", inlineBody+1), [][]string{{"-o", "body", "http://127.0.0.1:9090/v1/it's"}, append(slices.Clip(want), "--data-binary", "@body")}},
	} {
		raw.Body = []byte(tt.data)
		if diff := cmp.Diff(tt.want, words(t, curl("curl -o body "+inQuotes("http://127.0.0.1:9090/v1/it's"), raw))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
