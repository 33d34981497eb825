package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// profileOf is the file of a process's CPU profile.
func (w *stack) profileOf(role string) string { return filepath.Join(w.dir, role+".pprof") }

// profileByPackage says in one line which packages a CPU profile's time belongs to, read by the go tool.
func profileByPackage(ctx context.Context, file string) (string, error) {
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		return "", errNoProfile
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", "-lines=false", file)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go tool pprof: %w: %s", err, problem.Bytes())
	}
	return topPackages(out.String(), 12), nil
}

// topPackages reads what `go tool pprof -traces` prints: stacks, innermost frame first, between lines of dashes, each
// beginning with its time.
func topPackages(traces string, most int) string {
	used, total := map[string]time.Duration{}, time.Duration(0)
	var frames []string
	var weight time.Duration
	end := func() {
		if len(frames) > 0 {
			used[packageOf(frames)] += weight
			total += weight
		}
		frames, weight = nil, 0
	}
	lines := bufio.NewScanner(strings.NewReader(traces))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch {
		case strings.HasPrefix(lines.Text(), "-----"):
			end()
		case len(f) == 0:
		case weight == 0:
			d, err := time.ParseDuration(f[0])
			if err != nil || len(f) < 2 {
				continue // the head
			}
			weight, frames = d, append(frames, f[1])
		default:
			frames = append(frames, f[0])
		}
	}
	end()
	if total == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(used), func(a, b string) int { return cmp.Compare(used[b], used[a]) })
	var parts []string
	for _, name := range names[:min(most, len(names))] {
		parts = append(parts, fmt.Sprintf("%s %.0f%%", name, 100*float64(used[name])/float64(total)))
	}
	return strings.Join(parts, ", ")
}

// packageOf is the package that a stack's time belongs to: the innermost one outside of the standard library, else the
// outermost of the standard library that is not the runtime, else the runtime.
func packageOf(frames []string) string {
	std := ""
	for _, f := range frames {
		f, _, _ = strings.Cut(f, "[") // of a type's parameters
		slash := strings.LastIndexByte(f, '/') + 1
		name, _, _ := strings.Cut(f[slash:], ".")
		name = f[:slash] + name
		switch first, _, _ := strings.Cut(name, "/"); {
		case strings.Contains(first, "."):
			return strings.TrimPrefix(name, "github.com/forebay-io/forebay/")
		case first != "runtime" && first != "internal":
			std = name
		}
	}
	return cmp.Or(std, "runtime")
}
