/** A socket that systemd keeps over restarts of the program. With a stand-in for the engine. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { StandInEngine } from "../../../bench/stand-in-engine.js";
import { programWords } from "../../support/program-words.js";
import { connectClient } from "../grpc/test-server.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

/** As systemd with a .socket unit: listens, and starts the program with the socket for each line that it reads. */
const systemd = String.raw`
use POSIX ();
use Socket;
$| = 1;
$^F = 9;
my ($path, @command) = @ARGV;
socket(my $listener, AF_UNIX, SOCK_STREAM, 0) or die $!;
bind($listener, pack_sockaddr_un($path)) or die $!;
listen($listener, 64) or die $!;
print "listening\n";
while (<STDIN>) {
  my $pid = fork();
  if ($pid == 0) {
    POSIX::dup2(fileno($listener), 3);
    $ENV{LISTEN_PID} = $$;
    $ENV{LISTEN_FDS} = 1;
    exec(@command) or die $!;
  }
  print "$pid\n";
  waitpid($pid, 0);
  print "ended $?\n";
}
`;
const skip = spawnSync("perl", ["-e", "1"]).status === 0 ? false : "perl is not installed";

test(
  "no call is refused while the program is replaced behind systemd's socket",
  {
    skip,
    timeout: 240_000,
  },
  async () => {
    await using at = await temporaryDirectory();
    const path = join(at.path, "cri.sock");
    const socket = join(at.path, "docker.sock");
    await using engine = await StandInEngine.listen({ socket, containers: 0, containersPerPod: 1 });
    const flags = [
      ...["--network-plugin=no-op", "--container-runtime-endpoint=fd://", "--cadvisor-socket="],
      ...[`--state-dir=${join(at.path, "state")}`, `--docker-endpoint=${engine.endpoint}`],
    ];
    const words = programWords(flags);
    const manager = spawn("perl", ["-e", systemd, path, ...words], { stdio: ["pipe", "pipe", "ignore"] });
    const lines = createInterface({ input: manager.stdout })[Symbol.asyncIterator]();
    const line = async (): Promise<string> => String((await lines.next()).value);
    const start = async (): Promise<number> => {
      manager.stdin.write("start\n");
      return Number(await line());
    };
    /** A connection for each call, as crictl has it. */
    const call = async (): Promise<unknown> => {
      using client = connectClient(path);
      return (await client.call("Version", {}))["runtime_name"];
    };
    let pid = 0;
    try {
      assert.equal(await line(), "listening");
      const first = call();
      pid = await start();
      assert.equal(await first, "docker");

      let isOver = false;
      const answers: unknown[] = [];
      const calls = (async () => {
        while (!isOver) answers.push(await call());
      })();
      process.kill(pid, "SIGTERM");
      assert.equal(await line(), "ended 0");
      pid = 0;
      // Nothing serves, and systemd's socket takes connections.
      const between = call();
      pid = await start();
      assert.equal(await between, "docker");
      isOver = true;
      await calls;
      assert.deepEqual(new Set(answers), new Set(["docker"]));
    } finally {
      if (pid !== 0) process.kill(pid, "SIGKILL");
      manager.kill("SIGKILL");
    }
  },
);
