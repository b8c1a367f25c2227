// Runs Azurite until the parent process closes stdin.
//
// The operating system closes stdin when the parent ends for any reason, even
// SIGKILL, so Azurite is never left behind.
"use strict";

const services = 3; // blobs, queues and tables
const graceMs = 5000; // for writing to disk; usually a few are enough

// Ctrl+C reaches every process of a terminal. Ignore it: the parent stops storage
// after everything that uses it. On SIGTERM, Azurite by itself would close its
// ports and live on, because stdin is open.
const once = process.once;
let close; // writes the data and closes the ports; absent until Azurite has started
process.once = function (event, listener) {
  if (event === "SIGTERM") close = listener;
  return event === "SIGINT" || event === "SIGTERM" ? this : once.call(this, event, listener);
};
process.on("SIGINT", () => {});
process.on("SIGTERM", stop);

// A closed output must not keep Azurite from writing to disk.
process.stdout.on("error", () => {});
process.stderr.on("error", () => {});

process.stdin.resume();
process.stdin.on("error", stop);
process.stdin.on("close", stop);

let stopping = false;

function stop() {
  if (stopping) return;
  stopping = true;
  if (!close) process.exit(0);
  // Azurite writes its data and logs a line for each service that is closed.
  // After the last one, exit without waiting for idle connections.
  let closed = 0;
  const log = console.log;
  console.log = (line) => {
    log(line);
    if (/ successfully closed$/.test(line) && ++closed === services) process.exit(0);
  };
  setTimeout(() => process.exit(1), graceMs);
  close();
}

// Every response has a mark, so that no other kennel takes this Azurite for one
// that a developer started.
require("diagnostics_channel").subscribe("http.server.request.start", ({ response }) => {
  response.setHeader("Kennel-Storage", "own");
});

require("azurite/dist/src/azurite.js");
