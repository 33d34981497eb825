package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/forebay-io/forebay/cmd/internal/vectors"
)

type sourcesTestCmd struct {
	Vectors string `placeholder:"FILE" help:"File of signatures and challenges, in the format of vectors/public.json."`
	Samples string `placeholder:"INDEX" help:"Index of payloads, in the format of vectors/payloads/index.json."`
}

// Run runs the cases of both files. It prints a line per failure and "N passed, N failed, N skipped" for each file. A file with no
// case that this version can run is an error, too.
func (c *sourcesTestCmd) Run(e *env) error {
	if c.Vectors == "" && c.Samples == "" {
		return usageError("name a file: --vectors FILE, --samples INDEX or both")
	}
	failed := 0
	for _, run := range []struct {
		file string
		run  func(string, io.Writer) (vectors.Result, error)
	}{{c.Vectors, vectors.RunSignatures}, {c.Samples, vectors.RunSamples}} {
		if run.file == "" {
			continue
		}
		result, err := run.run(run.file, e.Stdout)
		if err != nil {
			return err
		}
		if result.Passed+result.Failed == 0 {
			return &exitError{code: exitProblems, err: fmt.Errorf("%s has no case that this version can run", run.file)}
		}
		failed += result.Failed
	}
	if failed > 0 {
		return &exitError{code: exitProblems, err: errors.New("a case failed")}
	}
	return nil
}
