package memory

import (
	"errors"
	"testing"
)

func TestAvailable(t *testing.T) {
	t.Parallel()
	meminfo := "MemTotal:       24684084 kB\nMemFree:        1 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"container":            {map[string]string{"/sys/fs/cgroup/memory.max": "536870912\n", "/proc/meminfo": meminfo}, 536870912},
		"container unlimited":  {map[string]string{"/sys/fs/cgroup/memory.max": "max\n", "/proc/meminfo": meminfo}, 24684084 << 10},
		"no container":         {map[string]string{"/proc/meminfo": meminfo}, 24684084 << 10},
		"neither":              {nil, 0},
		"meminfo says nothing": {map[string]string{"/proc/meminfo": "MemFree: 1 kB\n"}, 0},
	} {
		got := memoryLimit(func(name string) ([]byte, error) {
			if text, ok := c.files[name]; ok {
				return []byte(text), nil
			}
			return nil, errors.New("no such file")
		})
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
