package kenneltest_test

import (
	"fmt"
	"runtime"
	"testing"
)

// failing is a test that is expected to fail.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Fatalf(format string, values ...any) {
	f.text = fmt.Sprintf(format, values...)
	runtime.Goexit()
}

func (f *failing) Failed() bool { return f.text != "" }
