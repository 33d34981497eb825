// Package vectors runs files of published webhook cases against the catalogue: for `forebay sources test`, and so that
// whoever doubts an answer can bring a case of their own.
package vectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Result counts the cases of a run. Skipped are those whose scheme, preset or handshake does not exist yet.
type Result struct {
	Passed, Failed, Skipped int
}

// String returns the last line of a report.
func (r Result) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", r.Passed, r.Failed, r.Skipped)
}

// report writes one line per failure and counts.
type report struct {
	w      io.Writer
	result Result
	err    error
}

// skip is the verdict on a case that nothing here can run.
type skip struct{ what string }

func (s skip) Error() string { return s.what }

// count takes a case's verdict: nil, a skip, or what was wrong.
func (r *report) count(id string, verdict error) {
	if verdict == nil {
		r.result.Passed++
		return
	}
	if _, ok := errors.AsType[skip](verdict); ok {
		r.result.Skipped++
		return
	}
	r.result.Failed++
	r.line("FAIL %s: %v", id, verdict)
}

func (r *report) line(format string, args ...any) {
	if r.err == nil {
		_, r.err = fmt.Fprintf(r.w, format+"\n", args...)
	}
}

func (r *report) finish() (Result, error) {
	r.line("%s", r.result)
	return r.result, r.err
}

func readJSON(path string, into any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
