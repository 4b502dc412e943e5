/**
 * Network, mount and process namespaces in which tests change links, rules and settings of a node, and run an engine
 * of their own: /run, /var/lib, /sys and /proc are not the machine's there.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, statfsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** Where the directory of the namespaces, which is on a disk, is visible inside. */
export const diskDirectory = "/run/engine";
/** The engine inside listens here. */
export const ownEngineSocket = "/run/docker.sock";
/** Set inside, to the name of the namespaces. Cgroups of the containers inside are below a group of that name. */
export const namespacesVariable = "DOCKERSHIM_TEST_NAMESPACES";
const OVERLAY_TYPE = 0x794c7630;

/** Done by the first process, which then waits and so reaps what others leave behind. */
const FIRST = [
  // It may be below a directory that is hidden soon.
  'cd "$0"',
  // Of the proc file system outside: the id of this process there.
  "read -r pid _ < /proc/self/stat",
  "mount -t proc proc /proc",
  "mount -t tmpfs tmpfs /run",
  `mkdir -p ${diskDirectory} /run/tmp /run/cgroup`,
  `mount --no-canonicalize --bind . ${diskDirectory}`,
  "cd /",
  "mount -t tmpfs tmpfs /var/lib",
  // A sysfs shows the links of the network namespace in which it was mounted.
  "mount --rbind /sys/fs/cgroup /run/cgroup",
  "mount -t sysfs sysfs /sys",
  "mount --rbind /run/cgroup /sys/fs/cgroup",
  "ip link set lo up",
  // As on a machine that has just started: an engine enables forwarding, and then drops what it does not forward itself.
  "echo 0 > /proc/sys/net/ipv4/ip_forward",
];

/** What tsx has compiled outside need not be compiled again. */
const SHARE = ['mkdir -p "$1/tsx-0" && ln -s "$1/tsx-0" /run/tmp'];

/** Other directories where the tests have theirs: behind this, nothing that they make is seen inside. */
const HIDE = [
  'mount -t tmpfs tmpfs "$1"',
  ...["/tmp", "/var/tmp", "/var/log"].map((path) => `mount -t tmpfs tmpfs ${path}`),
  'mount --make-r"$2" /',
];

/**
 * @typedef {{ command: readonly string[], env: Readonly<Record<string, string>>, directory: string, name: string,
 *   pid: string, close: () => Promise<void> }} Namespaces
 *   `command`: what stands before a program that is to run inside; `env`: what it needs; `directory`: what is
 *   `diskDirectory` inside; `name`: of the cgroup; `pid`: of a process that is inside as long as they exist; `close`:
 *   ends all processes inside, and removes files and cgroups
 */

/**
 * Throws where there is no right to make them.
 * @param {string} workingDirectory of the programs inside
 * @param {{ elsewhere?: boolean, mounts?: "shared" | "private", directory?: string }} options `elsewhere`: directories
 *   for temporary files and logs, and IPC, are not shared either; `mounts`: inside, of elsewhere; `directory`: one of the
 *   caller, on a disk, which stays
 * @returns {Promise<Namespaces>}
 */
export async function openNamespaces(
  workingDirectory,
  { elsewhere = false, mounts = "shared", directory: given } = {},
) {
  const directory = given ?? (await mkdtemp(join(diskPlace(), "dockershim-engine-")));
  const name = basename(directory);
  const prepare = [...FIRST, ...(elsewhere ? HIDE : SHARE), 'echo "pid $pid"'].join(" && ");
  const flags = "--net --mount --pid --fork --kill-child --propagation private".split(" ");
  // It ends when the standard input does, which is when this process ends, however that does.
  const first = ["sh", "-c", `${prepare} && cat > /dev/null; exit $?`, directory, tmpdir(), mounts];
  // A signal to the caller's group is not for it: what runs inside may need it to clean up.
  const child = spawn("unshare", [...flags, ...(elsewhere ? ["--ipc"] : []), "--", ...first], {
    stdio: "pipe",
    detached: true,
  });
  const exited = new Promise((resolve) => child.once("close", resolve));
  const close = async () => {
    child.kill("SIGKILL");
    await exited;
    await removeCgroups(name);
    if (given === undefined) await rm(directory, { recursive: true, force: true, maxRetries: 20 });
  };
  try {
    const pid = await firstPid(child);
    const enter = ["nsenter", `--target=${pid}`, "--net", "--mount", "--pid", "--ipc", "--"];
    return {
      directory,
      name,
      pid,
      command: [...enter, "sh", "-c", 'cd "$0" && exec "$@"', workingDirectory],
      env: {
        [namespacesVariable]: name,
        TMPDIR: "/run/tmp",
        DOCKERSHIM_TEST_DOCKER_ENDPOINT: `unix://${ownEngineSocket}`,
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** @param {import("node:child_process").ChildProcess} child @returns {Promise<string>} */
function firstPid(child) {
  return new Promise((resolve, reject) => {
    let said = "";
    const hear = (/** @type {Buffer} */ text) => {
      said += text.toString();
      const pid = /^pid (\d+)$/m.exec(said)?.[1];
      if (pid !== undefined) resolve(pid);
    };
    child.stdout?.on("data", hear);
    child.stderr?.on("data", hear);
    child.once("error", reject);
    child.once("close", () => reject(new Error(`cannot make namespaces: ${said.trim()}`)));
  });
}

/** A place on a file system that can carry the overlays of an engine. */
function diskPlace() {
  const places = [tmpdir(), "/var/tmp", "/var/lib"];
  const found = places.find((place) => existsSync(place) && statfsSync(place).type !== OVERLAY_TYPE);
  if (found === undefined) throw new Error(`none of ${places.join(", ")} can hold the data of an engine`);
  return found;
}

/**
 * The groups of all containers; their processes may take a moment to go.
 * @param {string} name
 */
async function removeCgroups(name) {
  const base = "/sys/fs/cgroup";
  const hierarchies = existsSync(base) ? readdirSync(base) : [];
  for (const group of [join(base, name), ...hierarchies.map((each) => join(base, each, name))]) {
    for (let tries = 0; existsSync(group) && tries < 50; tries += 1) {
      if (tries > 0) await sleep(100);
      // The deepest first; one with a process stays.
      spawnSync("find", [group, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"], { stdio: "ignore" });
    }
  }
}
