package localhost

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the child when this process ends, even by
// SIGKILL.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
