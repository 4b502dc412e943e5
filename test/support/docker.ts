/** The Docker Engine of the tests through plain HTTP, independent of the adapter that is under test. */
import { request as httpRequest } from "node:http";

export const dockerEndpoint = process.env["DOCKERSHIM_TEST_DOCKER_ENDPOINT"] ?? "unix:///var/run/docker.sock";
/** The tests look at the engine by this socket also when the shims reach it otherwise. */
export const dockerSocket =
  process.env["DOCKERSHIM_TEST_DOCKER_SOCKET"] ?? dockerEndpoint.replace(/^unix:\/\//, "");

/** As Docker's own clients are told of TLS. */
export const tlsEnvironment = ((): Readonly<Record<string, string>> => {
  const path = process.env["DOCKERSHIM_TEST_DOCKER_CERT_PATH"] ?? "";
  return path === "" ? {} : { DOCKER_CERT_PATH: path, DOCKER_TLS_VERIFY: "1" };
})();

/** A request that takes longer fails the test. */
const requestTimeoutMs = 120_000;

export interface DockerAnswer {
  readonly status: number;
  readonly body: Buffer;
}

export interface DockerRequest {
  readonly body?: Buffer | object;
  readonly headers?: Readonly<Record<string, string>>;
  /** Another engine than the tests'. */
  readonly socket?: string;
}

/** Makes one request and returns the answer with any status. `path` has no version prefix. */
export function docker(
  method: string,
  path: string,
  { body, headers = {}, socket = dockerSocket }: DockerRequest = {},
): Promise<DockerAnswer> {
  const raw = Buffer.isBuffer(body);
  const bytes = body === undefined ? undefined : raw ? body : Buffer.from(JSON.stringify(body));
  const type = { "Content-Type": raw ? "application/x-tar" : "application/json" };
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(
      {
        socketPath: socket,
        method,
        path: `/v1.41${path}`,
        signal: AbortSignal.timeout(requestTimeoutMs),
        headers: {
          Host: "docker",
          ...(bytes === undefined ? {} : { ...type, "Content-Length": bytes.length }),
          ...headers,
        },
      },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
        incoming.on("error", reject);
        incoming.on("end", () => {
          resolve({ status: incoming.statusCode ?? 0, body: Buffer.concat(chunks) });
        });
      },
    );
    outgoing.on("error", reject);
    outgoing.end(bytes);
  });
}

/** The answer as JSON (undefined when empty); throws unless the status is 2xx or 304. */
export async function dockerJson(method: string, path: string, body?: Buffer | object): Promise<unknown> {
  const answer = await docker(method, path, body === undefined ? {} : { body });
  const text = answer.body.toString();
  if (answer.status >= 400 || answer.status < 200) {
    throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 500)}`);
  }
  return text === "" ? undefined : (JSON.parse(text) as unknown);
}

/** The fields of an inspected container that tests use. */
export interface InspectedContainer {
  readonly Id: string;
  readonly Name: string;
  readonly Image: string;
  readonly LogPath: string;
  readonly ResolvConfPath: string;
  readonly State: { readonly Status: string; readonly Running: boolean; readonly Pid: number };
  readonly Config: {
    readonly Healthcheck?: { readonly Test: readonly string[] };
    readonly Labels: Readonly<Record<string, string>>;
    readonly User: string;
    readonly StopSignal?: string;
    readonly StopTimeout?: number;
  };
  readonly HostConfig: {
    readonly SecurityOpt: readonly string[] | null;
    readonly OomScoreAdj: number;
    readonly CgroupParent: string;
    readonly Runtime: string;
    readonly Memory: number;
    readonly MaskedPaths: readonly string[] | null;
    readonly Ulimits:
      readonly { readonly Name: string; readonly Soft: number; readonly Hard: number }[] | null;
  };
  readonly NetworkSettings: { readonly IPAddress: string };
}

/** Undefined when there is no such container. */
export async function inspectContainer(id: string): Promise<InspectedContainer | undefined> {
  const { status, body } = await docker("GET", `/containers/${id}/json`);
  if (status === 404) return undefined;
  if (status !== 200) throw new Error(`inspect ${id}: ${status} ${body.toString()}`);
  return JSON.parse(body.toString()) as InspectedContainer;
}

export async function createContainer(name: string, body: object): Promise<string> {
  const answer = await dockerJson("POST", `/containers/create?name=${encodeURIComponent(name)}`, body);
  return (answer as { Id: string }).Id;
}

/** The host's pid of the first process; 0 when the container does not run. */
export async function pidOfContainer(id: string): Promise<number> {
  const { State } = (await dockerJson("GET", `/containers/${id}/json`)) as { State: { Pid: number } };
  return State.Pid;
}

export async function startContainer(id: string): Promise<void> {
  await dockerJson("POST", `/containers/${id}/start`);
}

/** Removes a container by force. A missing container is no error. */
export async function removeContainer(id: string): Promise<void> {
  for (;;) {
    const { status, body } = await docker("DELETE", `/containers/${id}?force=1&v=1`);
    if (status === 204 || status === 404) return;
    // Another request is removing it.
    if (status !== 409) throw new Error(`remove ${id}: ${status} ${body.toString()}`);
    if ((await inspectContainer(id)) === undefined) return;
  }
}

/** Ids of all containers, running or not, that have the label `key=value`. */
export async function containersWithLabel(label: string): Promise<readonly string[]> {
  const filters = encodeURIComponent(JSON.stringify({ label: [label] }));
  const listed = (await dockerJson("GET", `/containers/json?all=1&filters=${filters}`)) as { Id: string }[];
  return listed.map(({ Id }) => Id);
}

/** Ids of all containers, running or not, that were made of the image. */
export async function containersOfImage(reference: string): Promise<readonly string[]> {
  const filters = encodeURIComponent(JSON.stringify({ ancestor: [reference] }));
  const listed = (await dockerJson("GET", `/containers/json?all=1&filters=${filters}`)) as { Id: string }[];
  return listed.map(({ Id }) => Id);
}

/** Undefined when there is no such image. */
export async function inspectImage(
  reference: string,
): Promise<{ readonly Id: string; readonly RepoTags: readonly string[] | null } | undefined> {
  const { status, body } = await docker("GET", `/images/${encodeURI(reference)}/json`);
  if (status === 404) return undefined;
  return JSON.parse(body.toString()) as { Id: string; RepoTags: string[] | null };
}

export async function loadImage(archive: Buffer): Promise<void> {
  const { status, body } = await docker("POST", "/images/load?quiet=1", { body: archive });
  if (status !== 200 || body.includes('"errorDetail"')) throw new Error(`load image: ${body.toString()}`);
}

/** Removes the name (and with the last one the image); false when something uses it. */
export async function removeImage(reference: string): Promise<boolean> {
  const { status, body } = await docker("DELETE", `/images/${encodeURI(reference)}`);
  if (status === 409) return false;
  if (status !== 200 && status !== 404) throw new Error(`remove image ${reference}: ${body.toString()}`);
  return true;
}

export async function tagImage(reference: string, repository: string, tag: string): Promise<void> {
  await dockerJson("POST", `/images/${encodeURI(reference)}/tag?repo=${repository}&tag=${tag}`);
}

/**
 * A cgroup for a pod, as kubelets with the engine's driver name it, and where in it the cgroup of a container
 * is.
 */
export async function podCgroup(
  name: string,
): Promise<{ readonly parent: string; readonly pathOf: (containerId: string) => string }> {
  const { CgroupDriver } = (await dockerJson("GET", "/info")) as { CgroupDriver: string };
  if (CgroupDriver !== "systemd") {
    const parent = `/dockershim-test/${name}`;
    return { parent, pathOf: (id) => `${parent}/${id}` };
  }
  // systemd finds a slice by its name alone: a dash in it is a step down, so there may be no other.
  const plain = name.replaceAll("-", "_");
  const parent = `/dockershimtest.slice/dockershimtest-${plain}.slice`;
  return { parent, pathOf: (id) => `${parent}/docker-${id}.scope` };
}

/** Why the engine passes no annotations to the OCI runtime (API 1.43), or false. */
export async function reasonForNoAnnotations(): Promise<string | false> {
  const { ApiVersion } = (await dockerJson("GET", "/version")) as { ApiVersion: string };
  const minor = Number(ApiVersion.split(".")[1]);
  return minor >= 43 ? false : `API ${ApiVersion} has no annotations`;
}

/** Who root of a container is on the engine's host. */
export async function rootOnHost(): Promise<readonly [uid: number, gid: number]> {
  const info = (await dockerJson("GET", "/info")) as {
    SecurityOptions: string[] | null;
    DockerRootDir: string;
  };
  const isRemapped = (info.SecurityOptions ?? []).includes("name=userns");
  const [, uid, gid] = /\/(\d+)\.(\d+)$/.exec(isRemapped ? info.DockerRootDir : "") ?? [];
  return [Number(uid ?? 0), Number(gid ?? 0)];
}
