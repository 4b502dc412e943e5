/**
 * An engine of which only a socket is shared: it runs in mount, process, network and IPC namespaces of its own, with
 * other file systems where the tests have theirs. It is reached over a unix socket, over TCP with its own TLS, and over
 * ssh with an sshd of this machine. TCP and ssh listen on the loopback alone; all ends with `close`.
 */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { findProgram } from "./install.mjs";
import { diskDirectory, openNamespaces } from "./namespaces.mjs";
import { accepts, end, relay, start } from "./relay.mjs";
import { startSsh } from "./sshd.mjs";

/**
 * @typedef {{ endpoint: string, env: Readonly<Record<string, string>> }} Transport `env`: what a program needs beside the
 *   endpoint
 * @typedef {{ reason: string }} Absent why there is no such transport here
 * @typedef {{ socket: string, pid: string, unix: Transport, tcp: Transport, ssh: Transport | Absent,
 *   close: () => Promise<void> }} EngineElsewhere
 *   `socket`: for tests that look at the engine themselves; `pid`: of a process of the engine's host
 */

/**
 * Tells tests that the engine's host is not this one: the id of a process of that host, by which tests look at its files
 * and processes. The shim has no such means.
 */
export const elsewhereVariable = "DOCKERSHIM_TEST_ENGINE_ELSEWHERE";

const run = promisify(execFile);
const startMs = 60_000;

/** Why there can be none here, or false. */
export function reasonForNoEngineElsewhere() {
  if (process.platform !== "linux") return "not Linux";
  if (process.getuid?.() !== 0) return "not root";
  for (const program of ["dockerd", "containerd", "runc", "iptables", "ip", "unshare", "nsenter", "openssl"])
    if (findProgram(program) === undefined) return `${program} is not installed`;
  return false;
}

/** @returns {Promise<EngineElsewhere>} */
export async function startEngineElsewhere() {
  /** @type {(() => Promise<unknown>)[]} */
  const undo = [];
  const close = async () => {
    for (const end of undo.splice(0).reverse()) await end();
  };
  try {
    const namespaces = await openNamespaces("/", { elsewhere: true });
    undo.push(() => namespaces.close());
    const { directory } = namespaces;
    const material = await mkdtemp(join("/tmp", "dockershim-elsewhere-"));
    undo.push(() => rm(material, { recursive: true, force: true }));
    const tls = await makeTls(material, directory);
    const inside = (/** @type {string} */ file) => join(diskDirectory, file);
    await startDockerd(
      namespaces,
      [
        ...["--host=tcp://127.0.0.1:2376", "--tlsverify", `--tlscacert=${inside("ca.pem")}`],
        ...[`--tlscert=${inside("server.pem")}`, `--tlskey=${inside("server-key.pem")}`],
      ],
      undo,
    );
    const socket = join(directory, "docker.sock");
    const port = await relayTls(namespaces, directory, undo);
    return {
      socket,
      pid: namespaces.pid,
      unix: { endpoint: `unix://${socket}`, env: {} },
      tcp: {
        endpoint: `tcp://127.0.0.1:${port}`,
        env: { DOCKER_CERT_PATH: tls, DOCKER_TLS_VERIFY: "1" },
      },
      ssh: await startSsh(socket, material, undo),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * An authority with a certificate for the engine, which gets it into its own directory, and one for clients.
 * @param {string} material
 * @param {string} engineDirectory
 */
async function makeTls(material, engineDirectory) {
  const client = join(material, "tls");
  await mkdir(client);
  const openssl = (/** @type {string} */ words) => run("openssl", words.split(" "), { cwd: client });
  const request = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
  const authority = "-CA ca.pem -CAkey ca-key.pem -CAcreateserial";
  await openssl(`${request} -x509 -subj /CN=tests -days 2 -keyout ca-key.pem -out ca.pem`);
  const sign = async (/** @type {string} */ name, /** @type {string} */ extensions) => {
    await writeFile(join(client, `${name}.ext`), extensions);
    await openssl(`${request} -new -subj /CN=${name} -keyout ${name}-key.pem -out ${name}.csr`);
    await openssl(`x509 -req ${authority} -days 2 -in ${name}.csr -out ${name}.pem -extfile ${name}.ext`);
  };
  await sign("server", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth");
  await sign("client", "extendedKeyUsage=clientAuth");
  for (const file of ["ca.pem", "server.pem", "server-key.pem"])
    await writeFile(join(engineDirectory, file), await readFile(join(client, file)), { mode: 0o600 });
  await writeFile(join(client, "cert.pem"), await readFile(join(client, "client.pem")));
  await writeFile(join(client, "key.pem"), await readFile(join(client, "client-key.pem")), { mode: 0o600 });
  return client;
}

/**
 * Returns when the engine accepts connections on `docker.sock` in the directory of the namespaces.
 * @param {import("./namespaces.mjs").Namespaces} namespaces
 * @param {readonly string[]} flags
 * @param {(() => Promise<unknown>)[]} undo
 */
export async function startDockerd({ command, directory, name }, flags, undo) {
  const inside = (/** @type {string} */ file) => join(diskDirectory, file);
  const words = [
    ...["dockerd", `--data-root=${inside("data")}`, "--exec-root=/run/docker", "--pidfile=/run/docker.pid"],
    ...[`--host=unix://${inside("docker.sock")}`, `--cgroup-parent=/${name}`, ...flags],
  ];
  await writeFile(join(directory, "daemon.json"), "{}");
  const child = start([...command, ...words, `--config-file=${inside("daemon.json")}`]);
  let said = "";
  child.stderr?.on("data", (text) => (said = `${said}${String(text)}`.slice(-4000)));
  undo.push(() => end(child));
  const failed = once(child, "exit").then(() => Promise.reject(new Error(`dockerd ended:\n${said}`)));
  failed.catch(() => undefined);
  await Promise.race([untilAnswers(join(directory, "docker.sock")), failed]);
  return child;
}

/**
 * From a port of this machine's loopback to that of the engine's.
 * @param {import("./namespaces.mjs").Namespaces} namespaces
 * @param {string} directory
 * @param {(() => Promise<unknown>)[]} undo
 */
async function relayTls({ command }, directory, undo) {
  const from = { path: join(diskDirectory, "tls.sock") };
  await relay(command, from, { host: "127.0.0.1", port: 2376 }, undo);
  return relay([], { host: "127.0.0.1", port: 0 }, { path: join(directory, "tls.sock") }, undo);
}

/** @param {string} path */
async function untilAnswers(path) {
  const deadline = Date.now() + startMs;
  while (!(await accepts({ path }))) {
    if (Date.now() > deadline) throw new Error(`dockerd does not answer after ${startMs} ms`);
    await sleep(100);
  }
}
