// Package azurite installs and runs Azurite, Microsoft's storage emulator: one
// fixed version from npm, pinned by a lock file in this package.
//
// [Install] needs Node.js with npm. Several processes may install at the same
// time. [Start] serves blobs, queues and tables on the loopback address.
// Azurite ends with the process that started it, even if that is killed with
// SIGKILL.
//
// Each Azurite of this package has a key of its own besides the one that all
// have. A client with [Server.ConnectionString] is refused by every other
// Azurite, also by one that takes the ports later.
//
// Azurite implements conditional writes correctly but is not durable: if it is
// killed, it loses the last seconds of acknowledged writes. Use [Server.Stop].
package azurite

import "embed"

// Version is the version of Azurite that this package runs.
const Version = "3.37.0"

// FirstPort is where every Azurite serves blobs by default; queues and tables
// follow.
const FirstPort = 10000

// The default account of every Azurite. Its key is public in Microsoft's
// documentation and the same on all machines, so it is not a secret. Storage
// Explorer and UseDevelopmentStorage=true use it.
const (
	accountName = "devstoreaccount1"
	publicKey   = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// files are package.json, its lock and the script that runs Azurite.
//
// To change the version, edit package.json and Version, run
//
//	npm install --package-lock-only --omit=optional --ignore-scripts --omit-lockfile-registry-resolved
//
// and remove what TestLockFiles reports: the lock file pins contents, not
// download addresses.
//
//go:embed npm
var files embed.FS
