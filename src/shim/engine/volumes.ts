/** The engine calls about volumes. */
import { type EngineClient, refusalOf } from "./http/client.js";
import { asObject, objectsOf, textOf } from "./http/json.js";

/** Names of the volumes that have label `key` with this value. */
export async function listVolumes(
  client: EngineClient,
  { key, value }: { readonly key: string; readonly value: string },
  signal: AbortSignal,
): Promise<readonly string[]> {
  const query = { filters: JSON.stringify({ label: [`${key}=${value}`] }) };
  const answer = await client.json(
    { action: "list volumes", method: "GET", path: ["volumes"], query, concurrency: "read" },
    signal,
  );
  return objectsOf(asObject(answer), "Volumes").map((volume) => textOf(volume, "Name"));
}

/** Never forced. */
export async function removeVolume(
  client: EngineClient,
  name: string,
  signal: AbortSignal,
): Promise<"removed" | "missing"> {
  const action = `remove volume "${name}"`;
  const answer = await client.request(
    { action, method: "DELETE", path: ["volumes", name], concurrency: "write" },
    signal,
  );
  if (answer.status === 204) return "removed";
  if (answer.status === 404) return "missing";
  throw refusalOf(answer);
}
