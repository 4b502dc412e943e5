/** The hosts of the cluster: namespaces of their own, on one Ethernet segment. What runs in them ends with them. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, openSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import { diskDirectory, openNamespaces } from "../setup/namespaces.mjs";
import { tail } from "../setup/run.mjs";
import { addressesOf, familyOf, hosts, planOf } from "./addresses.mjs";

/**
 * @typedef {import("./addresses.mjs").Family} Family
 * @typedef {import("./addresses.mjs").HostName} HostName
 * @typedef {import("../setup/namespaces.mjs").Namespaces} Namespaces
 */

const run = promisify(execFile);
const maxBuffer = 64 * 1024 * 1024;

export class Host {
  /**
   * @param {HostName} name
   * @param {Namespaces} namespaces
   * @param {Promise<never>[]} ends of all hosts: one for each program that is to run on; rejects when it ends
   */
  constructor(name, namespaces, ends) {
    this.name = name;
    this.namespaces = namespaces;
    this.ends = ends;
  }

  /** The path outside of a file in the directory that is `diskDirectory` inside. @param {string} file */
  outside(file) {
    return join(this.namespaces.directory, file);
  }

  /**
   * Its standard output. Rejects with its output when it fails.
   * @param {readonly string[]} words
   */
  async run(words) {
    const [program = "", ...args] = [...this.namespaces.command, ...words];
    try {
      return (await run(program, args, { maxBuffer })).stdout;
    } catch (error) {
      const { stdout = "", stderr = "" } = /** @type {{ stdout?: string, stderr?: string }} */ (error);
      throw new Error(`${this.name}: ${words.join(" ")}:\n${tail(`${stdout}\n${stderr}`)}`, { cause: error });
    }
  }

  /**
   * Starts a program that runs until the host ends; its output is in log/NAME.
   * @param {string} name
   * @param {readonly string[]} words
   */
  start(name, words) {
    mkdirSync(this.outside("log"), { recursive: true });
    const file = this.outside(`log/${name}`);
    const log = openSync(file, "a");
    const [program = "", ...args] = [...this.namespaces.command, ...words];
    const child = spawn(program, args, { stdio: ["ignore", log, log] });
    const ended = once(child, "exit").then(() =>
      Promise.reject(new Error(`${this.name}: ${name} ended:\n${tail(readFileSync(file, "utf8"))}`)),
    );
    ended.catch(() => undefined);
    this.ends.push(ended);
  }

  /** The last lines of each log. */
  logs() {
    const directory = this.outside("log");
    const names = existsSync(directory) ? readdirSync(directory) : [];
    return names.map(
      (name) => `${this.name}, ${name}:\n${tail(readFileSync(join(directory, name), "utf8"))}`,
    );
  }

  /**
   * What `look` gives, as soon as it gives something; its last error is the cause of the time-out.
   * @template T
   * @param {string} what
   * @param {() => Promise<T | undefined>} look
   * @param {number} [seconds]
   * @returns {Promise<T>}
   */
  async until(what, look, seconds = 120) {
    const deadline = Date.now() + seconds * 1000;
    for (;;) {
      /** @type {unknown} */
      let reason;
      const found = await Promise.race([
        look().catch((/** @type {unknown} */ error) => void (reason = error)),
        ...this.ends,
      ]);
      if (found !== undefined) return found;
      if (Date.now() > deadline)
        throw new Error(`${this.name}: no ${what} after ${String(seconds)} s`, { cause: reason });
      await sleep(500);
    }
  }
}

/**
 * @param {readonly Family[]} families
 * @param {(() => Promise<unknown>)[]} undo
 * @returns {Promise<Readonly<Record<HostName, Host>>>}
 */
export async function openHosts(families, undo) {
  /** @type {Partial<Record<HostName, Host>>} */
  const opened = {};
  /** @type {Promise<never>[]} */
  const ends = [];
  for (const name of hosts) {
    const namespaces = await openNamespaces("/");
    undo.push(() => namespaces.close());
    opened[name] = new Host(name, namespaces, ends);
  }
  const all = /** @type {Record<HostName, Host>} */ (opened);
  for (const host of Object.values(all)) await connectHost(host, all.control, families);
  return all;
}

/**
 * The bridge of the segment is in the host of the control plane, and routes of the others to anywhere lead there.
 * @param {Host} host
 * @param {Host} control
 * @param {readonly Family[]} families
 */
async function connectHost(host, control, families) {
  // A shared directory would have the logs of both kubelets, and kubelets' mounts must reach the engine's containers.
  await host.run(["mount", "-t", "tmpfs", "tmpfs", "/var/log"]);
  await host.run(["mount", "--make-rshared", "/"]);
  const isControl = host === control;
  const link = isControl ? "lan" : "eth0";
  if (isControl) await host.run(["ip", "link", "add", link, "type", "bridge"]);
  else {
    // The process ids are those outside of both.
    const enter = [`--target=${control.namespaces.pid}`, "--net", "--"];
    const veth = ["add", host.name, "type", "veth", "peer", "name", link, "netns", host.namespaces.pid];
    await run("nsenter", [...enter, "ip", "link", ...veth]);
    await control.run(["ip", "link", "set", host.name, "master", "lan", "up"]);
  }
  for (const address of addressesOf(host.name, families)) {
    const isIpv6 = familyOf(address) === "ipv6";
    if (isIpv6) await host.run(["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0"]);
    const { bits } = planOf(familyOf(address));
    await host.run([
      ...["ip", "addr", "add", `${address}/${String(bits)}`, "dev", link],
      // An address that is still being tested for duplicates cannot be listened on.
      ...(isIpv6 ? ["nodad"] : []),
    ]);
  }
  await host.run(["ip", "link", "set", link, "up"]);
  if (isControl) return;
  for (const address of addressesOf("control", families)) {
    await host.run(["ip", `-${familyOf(address).slice(3)}`, "route", "add", "default", "via", address]);
  }
}

/** The path inside of a host of a file in its directory. @param {string} file */
export const inside = (file) => join(diskDirectory, file);
