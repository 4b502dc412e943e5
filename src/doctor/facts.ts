/** What was read of a node and its engine, as plain values. Nothing here judges. */
import type { DockerUlimit } from "../domain/create-body.js";
import type { NodeFacts } from "../domain/node-facts.js";
import type { Reach } from "../domain/reach.js";
import type { ErrorKind } from "../lib/errors.js";
import type { MigrationFacts } from "../migrate/facts/facts.js";
import type { Listener } from "../migrate/node/listeners.js";
import type { NodeRange } from "../network/example/free-range.js";
import type { OpenFileLimits } from "../shim/ports/host.js";

/** Something that was looked at, or why it could not be seen. */
export type Observed<T> =
  | { readonly seen: T; readonly problem?: undefined }
  | {
      readonly seen?: undefined;
      readonly problem: string;
      /** It did not answer within the time. */
      readonly timedOut: boolean;
    };

/** The settings of the server that matter here. */
export interface Settings {
  /** Where they come from: the unit, or the flags of this command. */
  readonly source: string;
  /** Why the server does not start with them; the defaults are then used. */
  readonly problem: string | undefined;
  readonly engineEndpoint: string;
  /** The path of the CRI's socket; empty: systemd passes it. */
  readonly socket: string;
  readonly stateDir: string;
  readonly cgroupDriver: string | undefined;
  readonly networkPlugin: "auto" | "no-op" | "cni" | "kubenet";
  readonly cniConfDir: string;
  readonly cniBinDirs: readonly string[];
  readonly pauseImage: string;
  readonly builtinPauseImage: "fallback" | "forbid";
  readonly defaultUlimits: readonly DockerUlimit[];
}

export interface EngineFacts {
  readonly info: NodeFacts;
  readonly hasPauseImage: boolean;
  readonly reach: Reach;
  /** Of a pause container that runs; undefined: none is in reach. */
  readonly openFiles: OpenFileLimits | undefined;
}

/** The engine, or how it fails. `asleep`: systemd would start it at the first request. */
export type EngineState =
  | { readonly state: "answers"; readonly facts: EngineFacts }
  | { readonly state: "asleep" }
  | {
      readonly state: "fails";
      readonly kind: ErrorKind;
      readonly problem: string;
      /** Why its unit ended; undefined: it did not fail, or nothing is known. */
      readonly lastWords?: string | undefined;
    };

/** The file system of a directory. */
export interface PlaceFacts {
  readonly path: string;
  readonly holds: string;
  readonly reading: Observed<FileSystemFacts>;
}

export interface FileSystemFacts {
  readonly id: string;
  readonly totalBytes: number;
  readonly availableBytes: number;
  /** 0 where the file system has no fixed number of them. */
  readonly inodes: number;
  readonly freeInodes: number;
  readonly readOnly: boolean;
}

export interface CertificateFacts {
  readonly holder: string;
  readonly path: string;
  readonly reading: Observed<{ readonly notBeforeMs: number; readonly notAfterMs: number }>;
}

/** Something of which the kernel has so many and no more. */
export interface KernelLimit {
  readonly name: "connections" | "threads" | "files" | "inotify";
  readonly used: number;
  readonly limit: number;
}

export interface HostFacts {
  /** A point in time that has certainly passed, and how that is known. */
  readonly passed: { readonly atMs: number; readonly proof: string } | undefined;
  /** Whether systemd-timesyncd has synchronized the clock; undefined: it does not run here. */
  readonly synchronized: boolean | undefined;
  /** By their names with dots; undefined: the kernel does not have the setting. */
  readonly sysctls: Readonly<Record<string, string | undefined>>;
  readonly limits: readonly KernelLimit[];
  readonly selinux: "enforcing" | "permissive" | "off";
  readonly apparmor: boolean;
  /** Of the file that the kubelet gives to pods with `dnsPolicy: Default`. */
  readonly nameservers: readonly string[];
  readonly resolvConf: string;
}

export interface PortFacts {
  readonly flag: string;
  readonly address: string;
  /** Process and name of what listens there. */
  readonly holder: string;
}

export interface ServerFacts {
  /** Whether a dockershim has claimed the state directory. */
  readonly runs: boolean;
  readonly socket: "absent" | "socket" | "other";
  readonly listener: Listener;
  /** Ports of its flags on which other programs listen. */
  readonly takenPorts: readonly PortFacts[];
  /** Why its unit ended; undefined: it did not fail, or nothing is known. */
  readonly lastWords: string | undefined;
  /** Names of files. */
  readonly quarantine: readonly string[];
  /** Servers of the CRI on Docker that run, as messages name them. */
  readonly runtimes: readonly string[];
  /** Why the kubelet's cAdvisor does not find names of containers; undefined: it does, or nothing is known. */
  readonly namesProblem: string | undefined;
  /** Why the OCI runtime does not work, in the words of the running server; undefined: it does, or nothing is known. */
  readonly ociRuntimeProblem: string | undefined;
}

export interface ConfigurationFileFacts {
  readonly path: string;
  readonly network: string | undefined;
  readonly problem: string | undefined;
  /** Plugins that it names and that are in none of the directories. */
  readonly missing: readonly string[];
  /** Of plugins that make a bridge. */
  readonly bridges: readonly { readonly name: string; readonly subnets: readonly string[] }[];
}

export interface BridgeFacts {
  readonly name: string;
  readonly ports: number;
}

/** Of the host-local plugin. */
export interface AddressUse {
  readonly ranges: readonly string[];
  readonly used: number;
  readonly total: number;
}

export interface NetworkFacts {
  /** With `auto` what the server would choose now. */
  readonly plugin: "no-op" | "cni" | "kubenet";
  readonly configurations: readonly ConfigurationFileFacts[];
  /** The network that pods get; undefined: see `problem`. */
  readonly network: string | undefined;
  readonly problem: string | undefined;
  /** What its plugins answer to STATUS; undefined: nothing is wrong, or they have no STATUS. */
  readonly status: string | undefined;
  /** Undefined: not known. */
  readonly addresses: AddressUse | undefined;
  readonly bridges: readonly BridgeFacts[];
  readonly ranges: readonly NodeRange[];
}

export interface FirewallFacts {
  readonly version: string;
  /** Plain `iptables`, which plugins call, has the other backend. */
  readonly differsFromDefault: boolean;
  readonly forwardPolicy: string;
  /** The rules of FORWARD that are not the engine's. */
  readonly otherForwardRules: readonly string[];
}

export interface OrphanFacts {
  /** Id of the engine that the state directory has always been used with, where another one answers. */
  readonly otherEngine?: string;
  readonly resources: readonly { readonly what: string; readonly certainlyOurs: boolean }[];
  /** What CHECK of the plugins says of running pods; undefined: not asked. */
  readonly complaints: readonly string[] | undefined;
}

export interface DoctorFacts {
  readonly atMs: number;
  readonly settings: Settings;
  readonly engine: EngineState;
  readonly server: Observed<ServerFacts>;
  readonly host: Observed<HostFacts>;
  readonly places: readonly PlaceFacts[];
  readonly certificates: readonly CertificateFacts[];
  readonly network: Observed<NetworkFacts>;
  readonly firewall: Observed<FirewallFacts>;
  readonly orphans: Observed<OrphanFacts>;
  /** Kubelet, units and checkpoints, as `migrate check` reads them. */
  readonly migration: Observed<MigrationFacts>;
}
