package localhost

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child when this process dies, even by SIGKILL.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
