/** Brings one pod up: observes the pod and takes the next step, until there is no next step. */
import { join } from "node:path";
import { sleep } from "../../shim/lib/abort.js";
import { ShimError, messageOf, unreachable } from "../../shim/lib/errors.js";
import type { Rollback } from "../../shim/lib/rollback.js";
import type { Image } from "../../shim/domain/cri.js";
import { createContainer } from "../containers/create-container.js";
import type { CriClient } from "../client.js";
import { type NodeFacts, sandboxConfig } from "../containers/cri-config.js";
import type { PlayFiles } from "../containers/files.js";
import {
  type VolumeImages,
  type WantedImage,
  ensureImage,
  ensureVolumeImages,
} from "../containers/images.js";
import { outputOf } from "../view/log-lines.js";
import type { Manifest } from "../manifests/read-manifests.js";
import {
  type ObservedContainer,
  type ObservedPod,
  type Step,
  describeExit,
  newestSandbox,
  nextStep,
} from "./next-step.js";
import { exitWithMessage, observePod } from "./observe.js";
import { type Directories, logDirectory, logPath, podDirectory } from "../containers/pod-files.js";
import { removePodFiles, removeSandbox } from "./teardown.js";
import { volumePreparations } from "../containers/volumes.js";

export interface RunnerDeps {
  readonly client: CriClient;
  readonly files: PlayFiles;
  readonly node: NodeFacts;
  readonly directories: Directories;
  /** One line of progress for the user. */
  readonly report: (line: string) => void;
  /** Interval between two statuses of a running init container. */
  readonly pollMs: number;
}

export interface PlayedPod {
  readonly observed: ObservedPod;
  /** Nothing had to be done. */
  readonly alreadyThere: boolean;
}

/**
 * Takes all steps that `manifest` needs. Registers their undos with `rollback`, which the caller commits or
 * runs. An error names the pod and the step.
 */
export async function playPod(
  manifest: Manifest,
  deps: RunnerDeps,
  rollback: Rollback,
  signal: AbortSignal,
): Promise<PlayedPod> {
  const run: Run = {
    manifest,
    deps,
    rollback,
    signal,
    images: new Map(),
    volumeImages: new Map(),
    madeSandbox: false,
  };
  let previous = "";
  for (let count = 0; ; count += 1) {
    let step: Step | undefined;
    try {
      const observed = await observePod(deps.client, manifest.key, signal);
      step = nextStep(manifest, observed, new Set(run.images.keys()));
      if (step.do === "nothing") return { observed, alreadyThere: count === 0 };
      const description = describeStep(step);
      const mayRepeat = step.do === "awaitInitContainer" || step.do === "fail";
      if (description === previous && !mayRepeat) {
        throw new ShimError("unknown", "the call succeeded, but the CRI server does not show its result");
      }
      previous = description;
      await take(step, observed, run);
    } catch (error) {
      throw failure(error, manifest, step);
    }
  }
}

interface Run {
  readonly manifest: Manifest;
  readonly deps: RunnerDeps;
  readonly rollback: Rollback;
  readonly signal: AbortSignal;
  /** By container. */
  readonly images: Map<string, Image>;
  volumeImages: VolumeImages;
  /** The undo of such a sandbox removes its containers, too. */
  madeSandbox: boolean;
}

async function take(step: Exclude<Step, { do: "nothing" }>, observed: ObservedPod, run: Run): Promise<void> {
  const { manifest, deps, signal, images } = run;
  switch (step.do) {
    case "fail":
      throw await explained(step.reason, step.container, run);
    case "ensureImage": {
      const onPull = (image: string): void => {
        report(run, `pulling image ${image}`);
      };
      const sandbox = sandboxConfig(manifest, 0, deps.node, deps.directories);
      const ensure = (wanted: WantedImage): Promise<Image> =>
        ensureImage(wanted, sandbox, { ...deps, onPull }, signal);
      const image = await ensure(step.container);
      run.volumeImages = await ensureVolumeImages(
        step.container,
        manifest.pod.spec,
        run.volumeImages,
        ensure,
      );
      images.set(step.container.name, image);
      return;
    }
    case "removeSandbox":
      report(run, "removing its sandbox that has ended");
      await removeSandbox(deps.client, step.sandbox.id, signal);
      return;
    case "runSandbox":
      report(run, "creating the sandbox");
      await runSandbox(run);
      return;
    case "createContainer": {
      const sandbox = newestSandbox(observed.sandboxes);
      const image = images.get(step.container.name);
      if (sandbox === undefined || image === undefined)
        throw new ShimError("internal", "no sandbox or image yet");
      report(run, `creating ${step.isInit ? "init container" : "container"} ${step.container.name}`);
      const { rollback, madeSandbox, volumeImages } = run;
      const input = { manifest, container: step.container, sandbox, image, volumeImages, deps, signal };
      await createContainer(madeSandbox ? input : { ...input, rollback });
      return;
    }
    case "startContainer":
      await deps.client.startContainer(step.container.id, signal);
      report(run, `started ${step.isInit ? "init container" : "container"} ${step.container.name}`);
      return;
    case "awaitInitContainer":
      await sleep(deps.pollMs, signal);
      return;
    default:
      unreachable(step);
  }
}

/** Makes volumes and log directory before the sandbox, as the kubelet does. */
async function runSandbox(run: Run): Promise<void> {
  const { manifest, deps, rollback, signal } = run;
  const { key, pod } = manifest;
  const { client, files, directories, node } = deps;
  const hadFiles = await files.exists(podDirectory(directories, key));
  // Before the calls, because the server may complete a call that fails here.
  rollback.defer(`remove pod "${key.namespace}/${key.name}"`, async (undoSignal) => {
    const { sandboxes } = await observePod(client, key, undoSignal);
    const own = sandboxes.filter(({ uid, playHash }) => uid === key.uid && playHash === manifest.hash);
    for (const { id } of own) await removeSandbox(client, id, undoSignal);
    if (!hadFiles) await removePodFiles(files, directories, key);
  });
  run.madeSandbox = true;
  for (const volume of volumePreparations(pod.spec, key, directories)) await files.prepareVolume(volume);
  await files.makeDirectory(logDirectory(directories, key));
  const config = sandboxConfig(manifest, 0, node, directories);
  await client.runPodSandbox(config, pod.spec.runtimeClassName ?? "", signal);
}

const tailBytes = 16 * 1024;
const tailLines = 20;

/** The error for `reason`, with the termination message and the last output of the failed container. */
async function explained(
  reason: string,
  container: ObservedContainer | undefined,
  run: Run,
): Promise<ShimError> {
  if (container === undefined) return new ShimError("precondition", reason);
  const { manifest, deps } = run;
  const path = join(logDirectory(deps.directories, manifest.key), logPath(container.name, container.attempt));
  let exit = describeExit(container);
  let output: readonly string[];
  try {
    exit = await exitWithMessage(container, manifest.key, deps.directories, deps.files);
    output = outputOf(await deps.files.readTail(path, tailBytes)).slice(-tailLines);
  } catch (error) {
    output = [`(its log cannot be read: ${messageOf(error)})`];
  }
  const shown =
    output.length === 0 ? "" : `\n${output.map((line) => `  ${container.name}: ${line}`).join("\n")}`;
  return new ShimError("precondition", `${reason}: ${exit}${shown}`);
}

function report({ manifest, deps }: Run, line: string): void {
  deps.report(`${manifest.key.namespace}/${manifest.key.name}: ${line}`);
}

function describeStep(step: Step): string {
  switch (step.do) {
    case "ensureImage":
      return `ensure the image of container "${step.container.name}"`;
    case "createContainer":
      return `create ${step.isInit ? "init " : ""}container "${step.container.name}"`;
    case "startContainer":
      return `start ${step.isInit ? "init " : ""}container "${step.container.name}"`;
    case "removeSandbox":
      return `remove sandbox "${step.sandbox.id}"`;
    case "runSandbox":
      return "create the sandbox";
    case "awaitInitContainer":
      return `wait for init container "${step.container.name}"`;
    case "fail":
    case "nothing":
      return "";
  }
}

function failure(error: unknown, { key, source }: Manifest, step: Step | undefined): ShimError {
  const description = step === undefined ? "observe the pod" : describeStep(step);
  const { kind, fields } = ShimError.from(error);
  const where = `play pod "${key.namespace}/${key.name}" (${source})`;
  const message = [where, description, messageOf(error)].filter((part) => part !== "").join(": ");
  return new ShimError(kind, message, fields, { cause: error });
}
