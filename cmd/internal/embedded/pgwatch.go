package embedded

import (
	"fmt"
	"os/exec"
	"syscall"
)

// watchScript is the watchdog's program. Its arguments are the server's data directory, the server's home and the directory to remove. It
// reads from a pipe that this process never writes to, so the read ends when this process does. Then the script ends the server at
// once, as its data are removed next, and removes home and directory. The process of the pid file is taken for the server only if its
// working directory is the data directory.
const watchScript = `
read -r _
data=$(cd "$1" 2>/dev/null && pwd -P)
pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null)
works() {
  if [ -d /proc/self ]; then [ "$(readlink "/proc/$pid/cwd" 2>/dev/null)" = "$data" ]; else kill -0 "$pid" 2>/dev/null; fi
}
if [ -n "$data" ] && [ -n "$pid" ] && works; then
  kill -QUIT "$pid"
  tries=0
  while works; do
    [ $tries -lt 100 ] || kill -KILL "$pid"
    tries=$((tries + 1))
    sleep 0.1
  done
fi
rm -rf -- "$2" "$3" || { sleep 1; rm -rf -- "$2" "$3"; }
`

// watchdog is a process that ends the server and removes its files if this process ends without having done so.
type watchdog struct{ cmd *exec.Cmd }

// watch starts the watchdog of a temporary server. The watchdog has a session of its own: a signal to this process's terminal or group
// does not reach it.
func watch(data, home, dir string) (*watchdog, error) {
	cmd := exec.Command("/bin/sh", "-c", watchScript, "forebay-watchdog", data, home, dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if _, err := cmd.StdinPipe(); err != nil { // only this process has the pipe open for writing
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog of the embedded postgres: %w", err)
	}
	return &watchdog{cmd}, nil
}

// end stops the watchdog, which has done nothing yet. w may be nil.
func (w *watchdog) end() {
	if w != nil {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait() // closes its input, too
	}
}
