// Package azurite installs and runs Azurite, the storage emulator by
// Microsoft: one fixed version, from npm, by a lock file that is part of this
// package.
//
// [Install] needs Node.js and the npm that comes with it. Several processes
// may install at once. [Start] serves blobs, queues and tables on this machine
// alone, and what it started ends with the process that started it, even if
// that is killed without notice.
//
// Azurite keeps the promises of conditional writes, not those of durability:
// killed, it loses the last seconds of what it acknowledged. Stop it in peace.
package azurite

import "embed"

// Version is the one Azurite this package runs.
const Version = "3.37.0"

// The account that every Azurite knows. Its key is printed in Microsoft's
// documentation and is the same on all machines: it protects nothing and is
// no secret.
const (
	accountName = "devstoreaccount1"
	accountKey  = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// files are package.json, its lock and the script that runs Azurite.
//
// For another version, name it in package.json and above, run
//
//	npm install --package-lock-only --omit=optional --ignore-scripts --omit-lockfile-registry-resolved
//
// and remove what TestLockFile finds: the lock is to say what is installed, not
// where from.
//
//go:embed npm
var files embed.FS
