// Runs Azurite for exactly as long as somebody holds the other end of stdin.
//
// The operating system closes that end whatever becomes of the parent process,
// be it killed without notice, so Azurite can never be left behind.
"use strict";

const services = 3; // blobs, queues and tables
const graceMs = 5000; // for writing to disk; usually a few are enough

// Ctrl+C reaches every process of a terminal. The parent decides when storage
// goes, after everything that uses it: Azurite is not to hear the signal.
const once = process.once;
process.once = function (event, listener) {
  return event === "SIGINT" ? this : once.call(this, event, listener);
};
process.on("SIGINT", () => {});

// What the parent no longer reads must not keep Azurite from writing to disk.
process.stdout.on("error", () => {});
process.stderr.on("error", () => {});

process.stdin.resume();
process.stdin.on("error", stop);
process.stdin.on("close", stop);

function stop() {
  // Azurite listens for SIGTERM: it writes what it still holds and says for
  // each service when that is done. Then nothing is left but its clients' idle
  // connections, which it would wait for.
  let closed = 0;
  const log = console.log;
  console.log = (line) => {
    log(line);
    if (/ successfully closed$/.test(line) && ++closed === services) process.exit(0);
  };
  setTimeout(() => process.exit(1), graceMs);
  if (!process.emit("SIGTERM")) process.exit(0); // it has not even started
}

require("azurite/dist/src/azurite.js");
