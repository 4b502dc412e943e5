/** Whether an engine can start privileged containers: root of nested and CI hosts may lack capabilities. */
import { docker } from "./docker.js";
import { testImageArchive } from "./test-image.js";

const reference = "dockershim.test/privileged:1";

type Ask = (method: string, path: string, body?: Buffer | object) => Promise<unknown>;

/** The reason why not, or false. `ask` answers the first JSON value of the engine, and throws for a refusal. */
export async function reasonForNoPrivileged(ask: Ask = askDocker): Promise<string | false> {
  await ask("POST", "/images/load", await testImageArchive({ reference, marker: "privileged" }));
  const { Id: id } = (await ask("POST", "/containers/create", {
    ...{ Image: reference, Cmd: ["true"] },
    HostConfig: { Privileged: true, NetworkMode: "none" },
  })) as { readonly Id: string };
  try {
    await ask("POST", `/containers/${id}/start`);
    return false;
  } catch (error) {
    if (!/unable to apply caps/.test(String(error))) throw error;
    return "no privileged container can be started: this root lacks capabilities";
  } finally {
    await ask("DELETE", `/containers/${id}?force=1`);
    await ask("DELETE", `/images/${reference}?force=1`);
  }
}

async function askDocker(method: string, path: string, body?: Buffer | object): Promise<unknown> {
  const answer = await docker(method, path, body === undefined ? {} : { body });
  const text = answer.body.toString();
  if (answer.status >= 400) throw new Error(`${method} ${path}: ${String(answer.status)} ${text}`);
  return text === "" ? undefined : (JSON.parse(text.split("\n", 1)[0] ?? "") as unknown);
}
