import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { HelperProcess } from "../../../src/shim/native/helper-process.js";
import { notifySystemd, serveWatchdog } from "../../../src/shim/native/notify-systemd.js";
import { programPath } from "../../../src/shim/native/programs.js";
import { startAsChild, type StartProgram } from "../../../src/shim/native/start-program.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

/** Prints the process that the first datagram comes from, as systemd sees it, and the datagram. */
const manager = String.raw`
use Socket;
$| = 1;
my ($name, $recvmsg) = @ARGV;
$name =~ s/^\@/\0/;
socket(my $socket, AF_UNIX, SOCK_DGRAM, 0) or die $!;
bind($socket, pack("S a*", AF_UNIX, $name)) or die $!;
setsockopt($socket, SOL_SOCKET, 16, 1) or die $!;
print "bound\n";
my ($text, $control) = ("\0" x 4096, "\0" x 64);
my $buffers = pack("P Q", $text, 4096);
my $message = pack("Q L x4 P Q P Q l x4", 0, 0, $buffers, 1, $control, 64, 0);
my $size = syscall($recvmsg, fileno($socket), $message, 0);
print "from ", (unpack("Q l l l L L", $control))[3], "\n", substr($text, 0, $size);
`;
const recvmsg = process.arch === "arm64" ? "212" : "47";
const skip = spawnSync("perl", ["-e", "1"]).status === 0 ? false : "perl is not installed";

async function startManager(name: string) {
  const child = spawn("perl", ["-e", manager, name, recvmsg], { stdio: ["ignore", "pipe", "inherit"] });
  const chunks: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(child.stdout, "data");
  return {
    received: async (): Promise<string> => {
      if (child.exitCode === null) await once(child, "close");
      return Buffer.concat(chunks).toString().replace("bound\n", "");
    },
    [Symbol.dispose]: () => child.kill("SIGKILL"),
  };
}

const noHelper: StartProgram = () => {
  throw new ShimError("unsupported", "there is no helper process");
};

const emulators = { amd64: "qemu-x86_64-static", arm64: "qemu-aarch64-static" };
const own = process.arch === "arm64" ? "arm64" : "amd64";

for (const architecture of ["amd64", "arm64"] as const) {
  const emulator = architecture === own ? "" : emulators[architecture];
  const isThere = emulator === "" || spawnSync(emulator, ["--version"]).status === 0;
  for (const kind of ["path", "abstract name"]) {
    test(
      `systemd's socket by ${kind} gets the message from this process, which the helper for ${architecture} sends`,
      { skip: isThere ? skip : `${emulator} is not installed`, timeout: 60_000 },
      async () => {
        await using at = await temporaryDirectory();
        const log = recordingLog();
        const program = join(at.path, "helper");
        const path = programPath("helper", architecture, "");
        await writeFile(program, `#!/bin/sh\nexec ${emulator} ${path} "$@"\n`, { mode: 0o700 });
        const helper = new HelperProcess({ program: () => program, log });
        const name = join(kind === "path" ? "" : "@", at.path, "notify");
        using systemd = await startManager(name);
        try {
          const options = { environment: { NOTIFY_SOCKET: name }, log, startVerb: helper.startVerb };
          await notifySystemd(["READY=1", "STATUS=ready\nMAINPID=1"], options);
          // Only root may speak for another process.
          const from = process.getuid?.() === 0 ? String(process.pid) : "\\d+";
          assert.match(
            await systemd.received(),
            new RegExp(`^from ${from}\nREADY=1\nSTATUS=ready MAINPID=1$`),
          );
          assert.deepEqual(
            log.lines.filter(({ level }) => level === "warn"),
            [],
          );
        } finally {
          await helper.close();
        }
      },
    );
  }
}

test("without a helper, systemd-notify sends the message", async () => {
  await using at = await temporaryDirectory();
  const program = join(at.path, "systemd-notify");
  await writeFile(program, `#!/bin/sh\nprintf '%s\\n' "$NOTIFY_SOCKET" "$@" > "${at.path}/output"\nexit 3\n`);
  await chmod(program, 0o700);
  const environment = {
    NOTIFY_SOCKET: "/run/notify",
    PATH: `${at.path}:${process.env["PATH"] ?? ""}`,
    SECRET: "x",
  };
  const log = recordingLog();
  const seen: NodeJS.ProcessEnv[] = [];
  const startProgram: StartProgram = (request, listener) => {
    seen.push(request.environment);
    return startAsChild({ ...request, program }, listener);
  };
  await notifySystemd(["READY=1", "STATUS=x"], { environment, log, startVerb: noHelper, startProgram });
  assert.deepEqual(seen.map(Object.keys), [["PATH", "NOTIFY_SOCKET"]]);
  // Its failure is only logged.
  assert.deepEqual(
    log.lines.map(({ level, message }) => [level, message]),
    [["warn", "systemd was not notified"]],
  );
});

test("a socket that is not there is only logged, with the kernel's reason", { timeout: 60_000 }, async () => {
  const log = recordingLog();
  const helper = new HelperProcess({ program: () => programPath("helper", process.arch, ""), log });
  try {
    const environment = { NOTIFY_SOCKET: "/nonexistent/notify" };
    await notifySystemd(["READY=1"], { environment, log, startVerb: helper.startVerb });
  } finally {
    await helper.close();
  }
  assert.match(
    JSON.stringify(log.lines),
    /"systemd was not notified".*error 2|error 2.*"systemd was not notified"/,
  );
});

test("nothing is sent without NOTIFY_SOCKET", async () => {
  const log = recordingLog();
  await notifySystemd(["READY=1"], { environment: {}, log, startVerb: noHelper, startProgram: noHelper });
  assert.deepEqual(log.lines, []);
});

for (const [environment, beats] of [
  [{ WATCHDOG_USEC: "60000000" }, 2],
  [{ WATCHDOG_USEC: "60000000", WATCHDOG_PID: String(process.pid) }, 2],
  [{ WATCHDOG_USEC: "60000000", WATCHDOG_PID: "1" }, 0],
  [{ WATCHDOG_USEC: "0" }, 0],
  [{}, 0],
] as const) {
  test(`${JSON.stringify(environment)} makes ${String(beats)} beats in a minute, none while nothing moves`, (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const sent: string[] = [];
    const startVerb: StartProgram = ({ words }) => {
      sent.push(words.at(-1) ?? "");
      throw new ShimError("unavailable", "not needed");
    };
    let isMoving = true;
    const all = { ...environment, NOTIFY_SOCKET: "/run/notify" };
    const watchdog = serveWatchdog(() => isMoving, { environment: all, log: recordingLog(), startVerb });
    t.mock.timers.tick(60_000);
    isMoving = false;
    t.mock.timers.tick(60_000);
    isMoving = true;
    watchdog[Symbol.dispose]();
    t.mock.timers.tick(60_000);
    assert.deepEqual(sent, Array<string>(beats).fill("WATCHDOG=1"));
  });
}
