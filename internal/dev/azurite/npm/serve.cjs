// Runs Azurite until the parent process closes stdin.
//
// The operating system closes stdin when the parent ends for any reason, even
// SIGKILL, so Azurite is never left behind.
"use strict";

const services = 3; // blobs, queues and tables
const graceMs = 5000; // for writing to disk; usually a few are enough

// Ctrl+C reaches every process of a terminal. Ignore it: the parent stops storage
// after everything that uses it.
const once = process.once;
process.once = function (event, listener) {
  return event === "SIGINT" ? this : once.call(this, event, listener);
};
process.on("SIGINT", () => {});

// A closed output must not keep Azurite from writing to disk.
process.stdout.on("error", () => {});
process.stderr.on("error", () => {});

process.stdin.resume();
process.stdin.on("error", stop);
process.stdin.on("close", stop);

function stop() {
  // On SIGTERM Azurite writes its data and logs a line for each service that is
  // closed. After the last one, exit without waiting for idle connections.
  let closed = 0;
  const log = console.log;
  console.log = (line) => {
    log(line);
    if (/ successfully closed$/.test(line) && ++closed === services) process.exit(0);
  };
  setTimeout(() => process.exit(1), graceMs);
  if (!process.emit("SIGTERM")) process.exit(0); // it has not started yet
}

require("azurite/dist/src/azurite.js");
