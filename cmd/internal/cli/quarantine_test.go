package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// TestQuarantineRedrive: several are redriven in the order in which they came, whatever cannot be understood is told of.
func TestQuarantineRedrive(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		var req api.QuarantineRedrive
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.By == "" || req.Reason != "mended" && !req.DryRun {
			t.Errorf("%+v, %v", req, err)
		}
		if strings.Contains(r.URL.Path, "/7/") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"status":400,"detail":"it still cannot be understood","kind":%q}`, schemas.Invalid)
			return
		}
		json.NewEncoder(w).Encode(api.QuarantineRedriven{EventID: "e", State: api.StateDone, To: &api.PlaceItem{Topic: "events.acme.orders", Partition: 2, Offset: 9}})
	}))
	defer server.Close()
	run := func(args ...string) (code int, out, errs string) {
		var stdout, stderr bytes.Buffer
		asked = nil
		code = Main(t.Context(), append([]string{"quarantine", "redrive", "--url", server.URL}, args...), Options{Stdout: &stdout, Stderr: &stderr})
		return code, stdout.String(), stderr.String()
	}
	const topic = "quarantine.acme.orders/0@"
	code, out, errs := run(topic+"10", topic+"7", topic+"9", "--reason", "mended")
	if want := []string{"/v1/quarantine/acme/orders/0/7/redrive", "/v1/quarantine/acme/orders/0/9/redrive", "/v1/quarantine/acme/orders/0/10/redrive"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
	if code != exitFailed || strings.Count(out, "events.acme.orders/2@9") != 2 || !strings.Contains(errs, topic+"7: it still cannot be understood") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := run(topic + "9"); code != exitUsage || !strings.Contains(errs, "--reason is needed") {
		t.Errorf("without a reason: %d, %s", code, errs)
	}
	if code, _, _ := run(topic+"9", "--dry-run"); code != exitOK {
		t.Errorf("dry run: %d", code)
	}
	if code, _, errs := run(topic+"7", "--dry-run"); code != exitFailed || !strings.Contains(errs, "still cannot be understood") {
		t.Errorf("the only one: %d, %s", code, errs)
	}
	for _, id := range []string{"events.acme.orders/0@1", "quarantine.acme.orders/0", "quarantine.acme.orders/x@1", "quarantine.acme/0@1", "7"} {
		if code, _, errs := run(id, "--reason", "mended"); code != exitUsage || !strings.Contains(errs, "quarantine list -o id") || len(asked) != 0 {
			t.Errorf("%s: %d, %s, asked %q", id, code, errs, asked)
		}
	}
}
