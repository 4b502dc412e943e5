/** What was read of a node, as plain values. Nothing here judges. */
import type { Flavour } from "../../../checkpoints/checksum.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { LoadedUnit } from "../systemd/load-unit.js";
import type { UnitCommand } from "../systemd/unit-command.js";
import type { Problem } from "../systemd/unit-file.js";

/** A flag of a command line. */
export interface FlagFact {
  /** Without dashes. */
  readonly name: string;
  readonly value: string;
  /** As it stands in the file: one word, or two; none for a setting of another kind, as of this program's file. */
  readonly raw: readonly string[];
  readonly file: string;
  readonly line: number;
}

export interface ServiceFacts {
  readonly unit: LoadedUnit;
  readonly command: UnitCommand;
  /** The command's, in order, behind this program's other settings: the last of several with one name counts. */
  readonly flags: readonly FlagFact[];
}

/** A value of the kubelet's configuration, and where it stands. */
export interface KubeletSetting {
  readonly value: string;
  readonly path: string;
  readonly line: number;
}

/** A YAML file of the kubelet with the values that matter here. */
export interface KubeletConfigFacts {
  readonly path: string;
  readonly text: string;
  /** Top-level scalars as text; undefined for null. */
  readonly values: ReadonlyMap<string, KubeletSetting | undefined>;
  /** Why it could not be parsed. */
  readonly problem: string | undefined;
}

export interface KubeletVersion {
  /** As `1.23.17`, or `1.23` when only so much is known. */
  readonly text: string;
  /** 23 for 1.23. */
  readonly minor: number;
  /** How it is known. */
  readonly source: string;
}

/** A unit that serves the CRI. */
export interface CriServer {
  /** By its program, else by its name. */
  readonly runtime: "dockershim" | "cri-dockerd" | "containerd" | "cri-o";
  readonly service: ServiceFacts;
  /** The program of the unit where it is not the runtime itself: a shell, a script. */
  readonly wrapper: string | undefined;
  readonly socket: LoadedUnit | undefined;
  /** As it is written, with or without a scheme. */
  readonly endpoint: string;
}

export interface KubeletFacts {
  /** Undefined: no unit of that name. */
  readonly service: ServiceFacts | undefined;
  /** The program of the unit where it is not the kubelet itself: a shell, a script, Docker. */
  readonly wrapper: string | undefined;
  readonly config: KubeletConfigFacts | undefined;
  /** Files of `--config-dir`, in the order in which the kubelet merges them. */
  readonly dropIns: readonly KubeletConfigFacts[];
  /** The settings of all these files. */
  readonly settings: ReadonlyMap<string, KubeletSetting>;
  /** kubeadm's file for this node alone, from 1.32 on. */
  readonly instanceConfig: KubeletConfigFacts | undefined;
  readonly version: KubeletVersion | undefined;
  /** The process that runs. */
  readonly running: { readonly pid: number; readonly flags: readonly FlagFact[] } | undefined;
  /** Whether kubeadm's files are here. */
  readonly isKubeadm: boolean;
}

export interface CheckpointFact {
  readonly sandboxId: string;
  readonly path: string;
  /** Undefined: corrupt. */
  readonly flavour: Flavour | undefined;
  readonly reason: string | undefined;
  readonly hasHostPorts: boolean;
}

export interface NetworkFacts {
  readonly configurationDirectory: string;
  /** The networks of its files, in order, and what is wrong with them. */
  readonly configurations: readonly {
    readonly path: string;
    readonly network: string | undefined;
    readonly problem: string | undefined;
  }[];
  readonly binDirectories: readonly { readonly path: string; readonly programs: number }[];
  /** The network of each cached result, by the id of its container. */
  readonly cached: ReadonlyMap<string, string>;
}

export interface ContainerFact {
  readonly id: string;
  readonly name: string;
  readonly image: string;
  readonly isRunning: boolean;
  /** Why the engine reported no more of it than its list: then other fields are empty. */
  readonly notInspected: string | undefined;
  /** The paths on the host. */
  readonly mounts: readonly string[];
  readonly logDriver: string;
  readonly runtime: string;
  readonly networkMode: string;
  readonly privileged: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly isMadeHere: boolean;
  /** What is at the log path of the pod's container. */
  readonly log: "none" | "link" | "file" | "missing";
  /** Whether this program keeps limits of it that Docker has no field for. */
  readonly hasLimitsRecord: boolean;
}

export interface PodFact {
  readonly sandboxId: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly attempt: number;
  /** Undefined: containers whose sandbox is gone. */
  readonly sandbox: ContainerFact | undefined;
  readonly containers: readonly ContainerFact[];
  readonly checkpoints: readonly CheckpointFact[];
  /** The network plugin in this program's record; undefined without a record. */
  readonly record: { readonly plugin: string; readonly path: string } | undefined;
  readonly isCached: boolean;
}

export interface EngineFacts {
  readonly endpoint: string;
  readonly facts: NodeFacts;
  readonly pods: readonly PodFact[];
  /** Containers with a name or label of pods that belong to no pod. */
  readonly foreign: readonly ContainerFact[];
  readonly outside: readonly ContainerFact[];
  /** Names of images that no registry is known to have. */
  readonly localImages: readonly { readonly id: string; readonly names: readonly string[] }[];
}

/** Something that names Docker's socket or files, or the socket of the kubelet's runtime. */
export interface DockerUser {
  readonly what: "container" | "unit" | "manifest";
  readonly name: string;
  /** Where it was seen: a file and line, or the container's mount. */
  readonly place: string;
  /** `name`: only its name suggests that it may read containers. */
  readonly use: "socket" | "runtime" | "files" | "logs" | "name";
  /** As `fluent-bit`; empty when the name says nothing. */
  readonly agent: string;
}

export interface DaemonConfig {
  readonly path: string;
  /** Undefined: not read, see `problem`. */
  readonly values: Readonly<Record<string, unknown>> | undefined;
  readonly problem: string | undefined;
}

export interface MigrationFacts {
  readonly root: string;
  /** Whether this process may read all that concerns the node. */
  readonly isRoot: boolean;
  readonly node: { readonly name: string; readonly source: string };
  readonly engine: EngineFacts | { readonly endpoint: string; readonly problem: string };
  /** That of the runtime that the kubelet uses; undefined where its flags do not tell. */
  readonly runtimeEngine: { readonly endpoint: string; readonly source: string } | undefined;
  readonly daemonConfig: DaemonConfig | undefined;
  readonly kubelet: KubeletFacts;
  /** A service besides kubelet.service that starts a kubelet. */
  readonly otherKubelet: string | undefined;
  readonly services: {
    readonly docker: ServiceFacts | undefined;
    /** That of cri-dockerd, whatever its name is. */
    readonly criDocker: ServiceFacts | undefined;
    readonly criDockerSocket: LoadedUnit | undefined;
    readonly dockershim: ServiceFacts | undefined;
    /** All services that may concern a runtime or a kubelet. */
    readonly units: readonly ServiceFacts[];
    readonly servers: readonly CriServer[];
    /** Where the sockets that the kubelet names lead to, as paths. */
    readonly links: ReadonlyMap<string, string>;
    /** The services whose processes listen there; empty: a process in no service. */
    readonly listeners: ReadonlyMap<string, string>;
  };
  readonly network: NetworkFacts;
  readonly checkpoints: readonly CheckpointFact[];
  readonly dockerUsers: readonly DockerUser[];
  /** Why the kubelet's socket cannot be connected to; undefined: it can, or there is none to try. */
  readonly socketProblem: string | undefined;
  readonly problems: readonly Problem[];
}
