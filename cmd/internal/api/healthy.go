package api

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Healthy returns nil where a URL answers 200, else what it says.
func Healthy(ctx context.Context, at string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	// It is this machine's own process, whose certificate is for another name; nothing secret is said to it.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("%w: does the process run, and by this file?", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return err
	}
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	var found struct {
		Readiness
		Error string // of /livez
	}
	var waits []string
	if json.Unmarshal(body, &found) == nil {
		for _, check := range found.Checks {
			if !check.OK {
				waits = append(waits, check.Name+": "+check.Error)
			}
		}
	}
	if found.Error != "" {
		waits = append(waits, found.Error)
	}
	return fmt.Errorf("%s answers %d %s", at, answer.StatusCode, strings.Join(waits, "; "))
}
