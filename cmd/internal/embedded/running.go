package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// RunningBroker returns the address of the broker that another process runs in a directory: whoever gets a *[HeldError] can ask it.
func RunningBroker(dir string) (string, error) {
	port, err := keptPort(dir)
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// RunningPostgres is RunningBroker for the connection string of a PostgreSQL.
func RunningPostgres(dir string) (schemas.Secret, error) {
	port, err := keptPort(dir)
	if err != nil {
		return schemas.Secret{}, err
	}
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	return schemas.NewSecret((&Postgres{port: port, password: strings.TrimSpace(string(password))}).url("forebay")), err
}

// keptPort returns the port of the last run, or of the one that is under way.
func keptPort(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "port"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
