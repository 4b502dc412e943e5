/** Short ways to the pods that most tests begin with. */
import assert from "node:assert/strict";
import type { Call } from "../../src/lib/call.js";
import { isKind, type ErrorKind } from "../../src/lib/errors.js";
import type { ContainerConfig } from "../../src/domain/cri.js";
import type { ValidContainerConfig, ValidRunPodSandbox } from "../../src/domain/requests.js";
import { createRequest, runRequest } from "./requests.js";
import type { FakeProcess } from "./fake-execs.js";
import type { TestShim } from "./services.js";
import { until } from "./turns.js";

export async function runSandbox(
  shim: TestShim,
  request: ValidRunPodSandbox = runRequest(),
  call: Call = shim.call("RunPodSandbox"),
): Promise<string> {
  const { pod_sandbox_id: id } = await shim.rpcs.RunPodSandbox(request, call);
  assert.ok(id);
  return id;
}

export async function createContainer(
  shim: TestShim,
  sandboxId: string,
  changes: Partial<ValidContainerConfig> = {},
  call: Call = shim.call("CreateContainer"),
): Promise<string> {
  const { container_id: id } = await shim.rpcs.CreateContainer(createRequest(sandboxId, changes), call);
  assert.ok(id);
  return id;
}

export async function startContainer(shim: TestShim, id: string): Promise<void> {
  await shim.rpcs.StartContainer({ container_id: id }, shim.call("StartContainer"));
}

export async function runContainer(
  shim: TestShim,
  sandboxId: string,
  name = "main",
  changes: Partial<ContainerConfig> = {},
): Promise<string> {
  const metadata = { name, attempt: 0 };
  const config = { ...changes, metadata, log_path: `${name}/0.log` } as Partial<ValidContainerConfig>;
  const id = await createContainer(shim, sandboxId, config);
  await startContainer(shim, id);
  return id;
}

/** A running container, in which `process` is what exec and attach find. */
export async function runProcess(
  shim: TestShim,
  process: FakeProcess,
  container: Partial<ContainerConfig> = {},
): Promise<string> {
  const id = await runContainer(shim, await runSandbox(shim), "main", container);
  shim.engine.execs.script = () => process;
  return id;
}

/** Holds requests of one kind to the engine until `release()`. */
export function holdRequests(
  { engine, world: { journal } }: TestShim,
  verb: string,
): { readonly begun: () => Promise<void>; readonly release: () => void } {
  let isHeld = true;
  const requests = (): number => journal.names(`engine.${verb}`).length;
  const before = requests();
  engine.hangs = (request) => request === verb && isHeld;
  return {
    begun: () => until(`${verb} is in flight`, () => requests() > before),
    release: () => {
      isHeld = false;
      engine.up();
    },
  };
}

/** What ListPodSandbox shows: id → READY (0) or NOTREADY (1). */
export async function listedSandboxes(shim: TestShim): Promise<Readonly<Record<string, number>>> {
  const items = await shim.rpcs.ListPodSandbox({ filter: null }, shim.call("ListPodSandbox"));
  return Object.fromEntries(items.map(({ id = "", state = 0 }) => [id, state]));
}

/** What ListContainers shows: id → state. */
export async function listedContainers(shim: TestShim): Promise<Readonly<Record<string, number>>> {
  const containers = await shim.rpcs.ListContainers({ filter: null }, shim.call("ListContainers"));
  return Object.fromEntries(containers.map(({ id = "", state = 0 }) => [id, state]));
}

/** Fails unless `promise` is rejected with an error of `kind` whose message matches. */
export async function rejectsWith(
  promise: Promise<unknown>,
  kind: ErrorKind,
  message: RegExp = /./,
): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(
      isKind(error, kind),
      `expected kind ${kind}, got ${String(error)} (${(error as { kind?: string }).kind ?? "no kind"})`,
    );
    assert.match(error.message, message);
    return true;
  });
}
