package servicebus

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if as := os.Getenv(memberEnv); as != "" {
		if err := beMember(as); !errors.Is(err, errDismissed) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
