//go:build !linux

package localhost

import "os/exec"

// dieWithParent does nothing, because this system has no simple equivalent. If
// the host is killed with SIGKILL, its handler keeps running.
func dieWithParent(*exec.Cmd) {}
