package embedded

import (
	"fmt"
	"os/exec"
	"syscall"
)

// watchScript reads until this process is gone, for it never gets a line: DATA HOME DIRECTORY. Then it ends the server of
// DATA at once, for nobody wants its data any more, and removes the rest. A process is the server if it works in DATA.
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

// watchdog is a process that clears away after this one, should it not come to that itself.
type watchdog struct{ cmd *exec.Cmd }

// watch starts the watchdog of a server that may not outlive this process. It has a session of its own: what ends this
// process by its terminal or its group must leave the watchdog.
func watch(data, home, dir string) (*watchdog, error) {
	cmd := exec.Command("/bin/sh", "-c", watchScript, "forebay-watchdog", data, home, dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if _, err := cmd.StdinPipe(); err != nil { // held open by nobody but this process
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog of the embedded postgres: %w", err)
	}
	return &watchdog{cmd}, nil
}

// end stops the watchdog, which then has done nothing. A nil one is none.
func (w *watchdog) end() {
	if w != nil {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait() // closes its input, too
	}
}
