package parts

import (
	"os"
	"testing"

	"kennel/internal/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
