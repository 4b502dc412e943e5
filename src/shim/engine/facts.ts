/** What `GET /version` and `GET /info` say of the engine, and which API version to speak with it. */
import { ShimError } from "../../lib/errors.js";
import type { NodeFacts, RuntimeFacts } from "../../domain/node-facts.js";
import { ociRuntimeName } from "../../domain/oci-changes.js";
import type { EngineVersion } from "../ports/engine.js";
import {
  asList,
  asObject,
  flagOf,
  type Json,
  numberOf,
  objectOf,
  textOf,
  textsOf,
} from "../../lib/json/json-readers.js";

/** Docker Engine 20.10. */
const lowestMinor = 41;
/** Docker Engine 28.5, the highest that this code was tried with; later ones still speak it. */
const preferredMinor = 51;

/** The answer of `GET /version`. */
export function toEngineVersion(answer: unknown): EngineVersion {
  const json = asObject(answer);
  const apiVersion = textOf(json, "ApiVersion");
  if (minorOf(apiVersion) === undefined) {
    throw new ShimError(
      "precondition",
      "read the version of the engine: what answers is not a Docker Engine",
    );
  }
  return { version: cleanVersion(textOf(json, "Version")), apiVersion };
}

/** The minor of the highest API version that the engine speaks. */
export function highestMinor(answer: unknown): number {
  return minorOf(toEngineVersion(answer).apiVersion) ?? 0;
}

/** The minor of the API version to speak; `precondition` for an engine that is too old. */
export function negotiateMinor(answer: unknown): number {
  const { version, apiVersion } = toEngineVersion(answer);
  const highest = minorOf(apiVersion) ?? 0;
  if (highest < lowestMinor) {
    throw new ShimError(
      "precondition",
      `Docker Engine ${version} speaks API ${apiVersion}, dockershim needs 1.${lowestMinor} (Docker Engine 20.10) or newer`,
    );
  }
  // An engine that no longer has the preferred version is used with its oldest one, the nearest to the known
  // ones.
  const lowest = minorOf(textOf(asObject(answer), "MinAPIVersion")) ?? 0;
  return Math.max(Math.min(preferredMinor, highest), Math.min(lowest, highest));
}

/** The answers of `GET /version` and `GET /info`, the latter in API version 1.`apiMinor`. */
export function toNodeFacts(version: unknown, info: unknown, apiMinor: number): NodeFacts {
  const { version: engineVersion, apiVersion } = toEngineVersion(version);
  const json = asObject(info);
  const security = textsOf(json, "SecurityOptions").map(
    (option) => /^name=([^,]*)/.exec(option)?.[1] ?? option,
  );
  const specDirs = textsOf(json, "CDISpecDirs");
  return {
    engineVersion,
    apiMinor,
    engineApiVersion: apiVersion,
    operatingSystem: textOf(json, "OperatingSystem"),
    kernelVersion: textOf(json, "KernelVersion"),
    architecture: textOf(asObject(version), "Arch"),
    cgroupDriver: toCgroupDriver(textOf(json, "CgroupDriver")),
    cgroupVersion: textOf(json, "CgroupVersion") === "2" ? 2 : 1,
    dockerRootDir: textOf(json, "DockerRootDir"),
    imageStore: usesContainerdStore(json) ? "containerd" : "graph",
    storageDriver: textOf(json, "Driver"),
    loggingDriver: textOf(json, "LoggingDriver"),
    runtimes: Object.entries(objectOf(json, "Runtimes")).map(([name, runtime]) =>
      toRuntime(name, asObject(runtime), runcVersion(asObject(version))),
    ),
    defaultRuntime: textOf(json, "DefaultRuntime"),
    security: {
      apparmor: security.includes("apparmor"),
      seccomp: security.includes("seccomp"),
      selinux: security.includes("selinux"),
      usernsRemap: security.includes("userns"),
      rootless: security.includes("rootless"),
    },
    liveRestore: json["LiveRestoreEnabled"] === true,
    // The engine names the directories that it reads, and none when it does not inject devices.
    cdi: specDirs.length > 0,
    cdiSpecDirs: specDirs.length > 0 ? specDirs : ["/etc/cdi", "/var/run/cdi"],
    warnings: textsOf(json, "Warnings").map((line) => line.replace(/^WARNING: /, "").trim()),
    firewallBackend: textOf(objectOf(json, "FirewallBackend"), "Driver"),
    totalMemory: numberOf(json, "MemTotal"),
    cpus: numberOf(json, "NCPU"),
    hostName: textOf(json, "Name"),
    engineId: textOf(json, "ID"),
  };
}

function minorOf(apiVersion: string): number | undefined {
  const minor = /^1\.(\d{1,4})$/.exec(apiVersion)?.[1];
  return minor === undefined ? undefined : Number(minor);
}

/** `20.10.24+dfsg1` → `20.10.24`: distributions put their own build after a plus. */
function cleanVersion(version: string): string {
  return version.replace(/\+.*$/, "");
}

/** cgroupfs by default, as in dockershim. Rootless engines without cgroups say `none`. */
function toCgroupDriver(text: string): NodeFacts["cgroupDriver"] {
  return text === "systemd" || text === "none" ? text : "cgroupfs";
}

/** DriverStatus is a list of pairs. */
function usesContainerdStore(info: Json): boolean {
  return asList(info["DriverStatus"]).some((pair) => {
    const [key, value] = asList(pair);
    return key === "driver-type" && value === "io.containerd.snapshotter.v1";
  });
}

/** Runc, and programs that are made like it. */
const runcPrograms: readonly string[] = ["runc", "crun", "youki"];

/** The answer has the path of a program that containerd's shim of runc runs; of a runtime with a `runtimeType` nothing. */
function toKind(name: string, runtime: Json): RuntimeFacts["kind"] {
  const path = textOf(runtime, "path");
  if (path === "") return "ownShim";
  // In front of runc, under any file name.
  if (name === ociRuntimeName) return "runc";
  return runcPrograms.includes(path.split("/").at(-1) ?? "") ? "runc" : "other";
}

/** Since Docker 25 the status of a runtime holds its OCI features document, as text. */
function toRuntime(name: string, runtime: Json, runc: string): RuntimeFacts {
  const document = textOf(objectOf(runtime, "status"), "org.opencontainers.runtime-spec.features");
  let features: unknown;
  try {
    features = JSON.parse(document);
  } catch {
    // Missing or malformed: no feature of the runtime is known.
  }
  return {
    name,
    kind: toKind(name, runtime),
    recursiveReadOnly:
      textsOf(asObject(features), "mountOptions").includes("rro") ||
      (document === "" && isInFrontOfRunc(name, runtime) && hasRecursiveReadOnly(runc)),
    ...(mapsMounts(asObject(features)) ? { mappedMounts: true } : {}),
  };
}

/** Without arguments it executes the runc that the engine itself uses. */
function isInFrontOfRunc(name: string, runtime: Json): boolean {
  return name === ociRuntimeName && textsOf(runtime, "runtimeArgs").length === 0;
}

function runcVersion(version: Json): string {
  const components = asList(version["Components"]).map(asObject);
  return textOf(components.find((component) => textOf(component, "Name") === "runc") ?? {}, "Version");
}

/** runc 1.1 and later. */
function hasRecursiveReadOnly(version: string): boolean {
  return /^(?:1\.[1-9]|[2-9]\.|[1-9]\d+\.)/.test(version);
}

function mapsMounts(features: Json): boolean {
  return flagOf(objectOf(objectOf(objectOf(features, "linux"), "mountExtensions"), "idmap"), "enabled");
}
