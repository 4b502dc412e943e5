/** An sshd of the tests, on this machine, that leads to an engine's socket. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { findProgram } from "./install.mjs";
import { accepts, end, start } from "./relay.mjs";

/**
 * @typedef {import("./engine-elsewhere.mjs").Transport} Transport
 * @typedef {import("./engine-elsewhere.mjs").Absent} Absent
 */

const run = promisify(execFile);

/**
 * An sshd with keys and a configuration of its own. It has a mount namespace with a user `sshd` and a directory, which
 * it wants, and which this machine may not have.
 * @param {string} socket
 * @param {string} material
 * @param {(() => Promise<unknown>)[]} undo
 * @returns {Promise<Transport | Absent>}
 */
export async function startSsh(socket, material, undo) {
  const sshd = process.env["DOCKERSHIM_TEST_SSHD"] ?? findProgram("sshd") ?? "/usr/sbin/sshd";
  if (!existsSync(sshd)) return { reason: "sshd is not installed" };
  const [ssh, keygen] = [findProgram("ssh"), findProgram("ssh-keygen")];
  if (ssh === undefined || keygen === undefined) return { reason: "ssh is not installed" };
  const at = (/** @type {string} */ name) => join(material, name);
  for (const name of ["host", "user"]) await run(keygen, ["-q", "-t", "ed25519", "-N", "", "-f", at(name)]);
  const port = await freePort();
  await mkdir(at("far"));
  await mkdir(at("bin"));
  // `docker system dial-stdio` of the other host, without a need for Docker's command line.
  await writeProgram(
    at("far/docker"),
    `#!${process.execPath}
const socket = require("node:net").connect({ path: ${JSON.stringify(socket)}, allowHalfOpen: true });
socket.on("error", (error) => { console.error(error.message); process.exit(1); });
process.stdin.pipe(socket).pipe(process.stdout);
socket.on("end", () => process.stdin.destroy());`,
  );
  await writeFile(
    at("sshd_config"),
    `Port ${port}
ListenAddress 127.0.0.1
HostKey ${at("host")}
AuthorizedKeysFile ${at("user.pub")}
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
MaxSessions 1000
MaxStartups 1000
SetEnv PATH=${at("far")}:/usr/bin:/bin
`,
  );
  // One handshake for all connections, as docs/run/remote.md advises.
  await writeFile(
    at("ssh_config"),
    `IdentityFile ${at("user")}
IdentitiesOnly yes
UserKnownHostsFile ${at("known")}
ControlMaster auto
ControlPath ${at("control")}
ControlPersist 5s
`,
  );
  await writeFile(at("known"), `[127.0.0.1]:${port} ${await readFile(at("host.pub"), "utf8")}`);
  await writeProgram(at("bin/ssh"), `#!/bin/sh\nexec ${ssh} -F ${at("ssh_config")} "$@"\n`);
  const users = await readFile("/etc/passwd", "utf8");
  await writeFile(at("passwd"), `${users}sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n`);
  const script = `mount --bind ${at("passwd")} /etc/passwd && mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && exec "$@"`;
  const server = [sshd, "-D", "-e", "-f", at("sshd_config")];
  const child = start(["unshare", "--mount", "sh", "-c", script, "sh", ...server]);
  let said = "";
  child.stderr?.on("data", (text) => (said = `${said}${String(text)}`.slice(-4000)));
  undo.push(async () => {
    await run(at("bin/ssh"), ["-O", "exit", "-p", String(port), "127.0.0.1"]).catch(() => undefined);
    await end(child);
  });
  const deadline = Date.now() + 10_000;
  while (!(await accepts({ host: "127.0.0.1", port }))) {
    if (child.exitCode !== null || Date.now() > deadline)
      return { reason: `sshd does not start: ${said.trim()}` };
    await sleep(50);
  }
  return {
    endpoint: `ssh://root@127.0.0.1:${port}`,
    env: { PATH: `${at("bin")}${delimiter}${process.env["PATH"] ?? ""}` },
  };
}

/** @param {string} path @param {string} text */
async function writeProgram(path, text) {
  await writeFile(path, text);
  await chmod(path, 0o755);
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  server.close();
  await once(server, "close");
  return port;
}
