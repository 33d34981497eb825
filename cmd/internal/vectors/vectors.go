// Package vectors runs files of published webhook cases against the catalogue of providers, for `forebay sources test`. Whoever
// doubts what the catalogue does can bring a case of their own.
package vectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Result counts the cases of a run. Skipped are those that cannot be run yet, since there is no such scheme, preset or key format.
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
	err    error // of writing
}

// skip is the error of a case that cannot be run. what says what is missing for it.
type skip struct{ what string }

func (s skip) Error() string { return s.what }

// count counts a case. err is nil if the case passed, a skip, or what was wrong.
func (r *report) count(id string, err error) {
	if err == nil {
		r.result.Passed++
		return
	}
	if _, ok := errors.AsType[skip](err); ok {
		r.result.Skipped++
		return
	}
	r.result.Failed++
	r.line("FAIL %s: %v", id, err)
}

// line writes a line, unless an earlier one could not be written.
func (r *report) line(format string, args ...any) {
	if r.err == nil {
		_, r.err = fmt.Fprintf(r.w, format+"\n", args...)
	}
}

// finish writes the counts and returns them.
func (r *report) finish() (Result, error) {
	r.line("%s", r.result)
	return r.result, r.err
}

// readJSON decodes a file. Numbers in untyped values stay exact.
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
