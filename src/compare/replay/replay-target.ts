/** What a recording and a replay of it call differently: ids, directories, paths of the recorded node. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { isMessage, textAt } from "../answers/answer-shape.js";
import type { RecordedCall } from "../record/recording.js";

type Message = Readonly<Record<string, unknown>>;

const idPattern = /[0-9a-f]{64}/g;

export class ReplayTarget {
  /** Ids of the recording and those of the replay. */
  readonly #ids = new Map<string, string>();
  /** The pod of each container of the recording. */
  readonly #pods = new Map<string, string>();
  /** By id of the recording: mounts that were left out. */
  readonly #leftOut = new Map<string, ReadonlySet<string>>();
  /** Directories of logs of the recording. */
  readonly #logDirectories = new Map<string, string>();
  readonly missingPaths = new Set<string>();
  readonly imageLabels = new Set<string>();
  /** By id of the recording and by id of the replay: the keys of labels in the request. */
  readonly #requestedLabels = new Map<string, ReadonlySet<string>>();

  /** `directory`: for logs. `isComparedImage`: of an entry of a list of images. */
  constructor(
    private readonly directory: string,
    private readonly exists: (path: string) => boolean = existsSync,
    private readonly isComparedImage: (image: unknown) => boolean = () => true,
  ) {}

  /** Ids that the replay made. */
  get made(): readonly string[] {
    return [...this.#ids.values()];
  }

  /** To be called with each answer that names a new object. */
  learn({ rpc, request, response }: RecordedCall, answer: Message): void {
    const name = rpc === "RunPodSandbox" ? "pod_sandbox_id" : rpc === "CreateContainer" ? "container_id" : "";
    const [recorded, actual] = [textAt(response, name), textAt(answer, name)];
    if (recorded === "" || actual === "") return;
    this.#ids.set(recorded, actual);
    const config = request?.["config"];
    const labels = isMessage(config) && isMessage(config["labels"]) ? config["labels"] : {};
    const keys = new Set(Object.keys(labels));
    this.#requestedLabels.set(recorded, keys).set(actual, keys);
  }

  /** The error with the ids of this node. */
  error(error: NonNullable<RecordedCall["error"]>): object {
    return { ...error, message: this.#ownIds(error.message) };
  }

  /** The id of the recording's pod that a call is about; empty when it is about none, or about all. */
  podOf({ rpc, request, response }: RecordedCall): string {
    if (rpc === "RunPodSandbox") return textAt(response, "pod_sandbox_id");
    if (rpc === "CreateContainer")
      this.#pods.set(textAt(response, "container_id"), textAt(request, "pod_sandbox_id"));
    const container = textAt(request, "container_id");
    return textAt(request, "pod_sandbox_id") || this.#pods.get(container) || container;
  }

  /** Ids in the request that this replay has not made. */
  unknownIds(request: Message): readonly string[] {
    const { filter } = request;
    const named = [request["pod_sandbox_id"], request["container_id"], isMessage(filter) ? filter["id"] : ""];
    return named.filter((id): id is string => typeof id === "string" && id !== "" && !this.#ids.has(id));
  }

  /** The request for this node. */
  request({ rpc, request = {}, response }: RecordedCall): Message {
    const own = this.#ownIds(request) as Message;
    const { config, sandbox_config: pod } = own;
    if (rpc === "PullImage") return { ...own, auth: null, sandbox_config: null };
    if (!isMessage(config)) return own;
    if (rpc === "RunPodSandbox") return { ...own, config: this.#podConfig(config) };
    if (rpc !== "CreateContainer") return own;
    const mounts = arrayOf(config["mounts"]);
    const present = mounts.filter((mount) => textAt(mount, "host_path") === "" || this.#isPresent(mount));
    const leftOut = mounts.filter((mount) => !present.includes(mount));
    this.#leftOut.set(
      textAt(response, "container_id"),
      new Set(leftOut.map((mount) => textAt(mount, "container_path"))),
    );
    return {
      ...own,
      config: { ...config, mounts: present, envs: arrayOf(config["envs"]).map(environment) },
      sandbox_config: isMessage(pod) ? this.#podConfig(pod) : pod,
    };
  }

  /** The recorded answer as it would be here. Of lists, only objects that the replay made. */
  expected(rpc: string, response: Message): Message {
    const containers = arrayOf(response["containers"]).length;
    const made = this.#onlyRequestedLabels(
      mapLists(response, (entry) => this.#ids.has(idOf(entry)), this.isComparedImage),
    ) as Message;
    const own = this.#ownDirectories(this.#ownIds(made)) as Message;
    const { status } = own;
    if (rpc !== "ContainerStatus" || containers > 0 || !isMessage(status)) return own;
    const leftOut = this.#leftOut.get(textAt(response["status"], "id"));
    const mounts = arrayOf(status["mounts"]).filter(
      (mount) => !leftOut?.has(textAt(mount, "container_path")),
    );
    return { ...own, status: { ...status, mounts } };
  }

  /** The answer; lists have only the objects that the replay made. */
  actual(response: Message): Message {
    const made = new Set(this.made);
    const own = mapLists(response, (entry) => made.has(idOf(entry)), this.isComparedImage);
    return this.#onlyRequestedLabels(own) as Message;
  }

  /** Docker adds the labels of the image, which dockershim and cri-dockerd show and this program does not. */
  #onlyRequestedLabels(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((entry) => this.#onlyRequestedLabels(entry));
    if (!isMessage(value) || Buffer.isBuffer(value)) return value;
    const keys = this.#requestedLabels.get(textAt(value, "id"));
    return Object.fromEntries(
      Object.entries(value).map(([name, entry]) => {
        if (name !== "labels" || keys === undefined || !isMessage(entry))
          return [name, this.#onlyRequestedLabels(entry)];
        const isRequested = ([key]: readonly [string, unknown]): boolean => {
          if (!keys.has(key)) this.imageLabels.add(key);
          return keys.has(key);
        };
        return [name, Object.fromEntries(Object.entries(entry).filter(isRequested))];
      }),
    );
  }

  /** Logs go to the replay's directory, and the cgroups of the recorded node's kubelet are not made here. */
  #podConfig(config: Message): Message {
    const recorded = textAt(config, "log_directory");
    const { linux } = config;
    return {
      ...config,
      log_directory: recorded === "" ? "" : this.#logDirectory(recorded),
      linux: isMessage(linux) ? { ...linux, cgroup_parent: "" } : linux,
    };
  }

  #logDirectory(recorded: string): string {
    const own = this.#logDirectories.get(recorded) ?? join(this.directory, String(this.#logDirectories.size));
    this.#logDirectories.set(recorded, own);
    return own;
  }

  #isPresent(mount: Message): boolean {
    const path = textAt(mount, "host_path");
    if (this.exists(path)) return true;
    // The engine would make it, on a node to which it does not belong.
    this.missingPaths.add(path);
    return false;
  }

  #ownIds(value: unknown): unknown {
    return mapTexts(value, (text) => text.replaceAll(idPattern, (id) => this.#ids.get(id) ?? id));
  }

  #ownDirectories(value: unknown): unknown {
    return mapTexts(value, (text) => {
      if (!text.startsWith("/")) return text;
      for (const [recorded, own] of this.#logDirectories) {
        if (text.startsWith(`${recorded}/`)) return own + text.slice(recorded.length);
      }
      return text;
    });
  }
}

/** The lists of pods, containers, their statistics and metrics, and of images. */
function mapLists(
  response: Message,
  keep: (entry: Message) => boolean,
  keepImage: (image: Message) => boolean,
): Message {
  const changed: Record<string, unknown> = { ...response };
  for (const name of ["items", "containers", "stats", "pod_metrics", "images"]) {
    if (Array.isArray(changed[name]))
      changed[name] = arrayOf(changed[name]).filter(name === "images" ? keepImage : keep);
  }
  return changed;
}

function idOf(entry: Message): string {
  return textAt(entry, "id") || textAt(entry["attributes"], "id") || textAt(entry, "pod_sandbox_id");
}

/** The protocol has bytes there; recordings have the number of the secret. */
function environment(entry: Message): Message {
  return { ...entry, value: Buffer.from(textAt(entry, "value")) };
}

function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((entry) => mapTexts(entry, change));
  if (!isMessage(value) || Buffer.isBuffer(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, mapTexts(entry, change)]));
}

function arrayOf(value: unknown): readonly Message[] {
  return Array.isArray(value) ? value.filter(isMessage) : [];
}
