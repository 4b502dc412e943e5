import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { loadSync, type ServiceDefinition } from "@grpc/proto-loader";
import { cadvisorMessages, cadvisorRpcs } from "../../../src/domain/cadvisor-descriptors.js";
import { criMessages, criRpcs, v1alpha2Rpcs } from "../../../src/domain/cri-descriptors.js";

const root = new URL("../../../", import.meta.url);

test("npm run generate makes exactly the files that are here", async () => {
  const script = new URL("scripts/generate-cri-types.mjs", root).href;
  const { generated } = (await import(script)) as { readonly generated: Readonly<Record<string, string>> };
  for (const [path, text] of Object.entries(generated))
    assert.equal(readFileSync(new URL(path, root), "utf8"), text, path);
});

interface Field {
  readonly name: string;
  readonly number: number;
  readonly label: string;
  readonly type: string;
  readonly typeName: string;
}

interface Message {
  readonly name: string;
  readonly field: readonly Field[];
  readonly nestedType: readonly Message[];
}

/** A field as the tables write it. */
function fieldText({ name, number, label, type, typeName }: Field, entries: readonly Message[]): string {
  const typeText = (one: Field): string => {
    const kind = one.type.slice("TYPE_".length).toLowerCase();
    return one.typeName === "" ? kind : `${kind}:${one.typeName.split(".").at(-1) ?? ""}`;
  };
  const [key, value] = entries.find((entry) => entry.name === typeName)?.field ?? [];
  if (key !== undefined && value !== undefined)
    return `${name}=${number} map ${typeText(key)} ${typeText(value)}`;
  const single = typeText({ name, number, label, type, typeName });
  return `${name}=${number} ${single}${label === "LABEL_REPEATED" ? "[]" : ""}`;
}

/** Without the messages that an enum is nested in, which no descriptor names. */
const simple = (field: string): string => field.replace(/enum:\w+\./, "enum:");

describe("@grpc/proto-loader reads the same from the .proto files", () => {
  for (const [file, packageName, messages, rpcs, skipped] of [
    ["runtime/v1/api.proto", "runtime.v1", criMessages, criRpcs, []],
    ["runtime/v1alpha2/api.proto", "runtime.v1alpha2", undefined, criRpcs, Object.keys(criRpcs)],
    ["cadvisor.proto", "dockershim.cadvisor", cadvisorMessages, cadvisorRpcs, []],
  ] as const) {
    const entries = Object.entries(loadSync(new URL(`proto/${file}`, root).pathname, { keepCase: true })).map(
      ([name, entry]) => [name.replace(`${packageName}.`, ""), entry] as const,
    );

    test(`the RPCs of ${file}`, () => {
      const found = entries
        .filter(([, entry]) => !("format" in entry))
        .flatMap(([service, methods]) =>
          Object.entries(methods as ServiceDefinition).map(([name, method]) => {
            const types = [method.requestType, method.responseType].map(
              (type) => (type as { readonly type: Message }).type.name,
            );
            return [name, [service, ...types, ...(method.responseStream ? ["stream"] : [])].join(" ")];
          }),
        );
      const wanted = skipped.length === 0 ? Object.keys(rpcs) : v1alpha2Rpcs;
      assert.deepEqual(
        found,
        wanted.map((name) => [name, (rpcs as Record<string, string>)[name]]),
      );
    });

    if (messages === undefined) continue;
    test(`the messages of ${file}`, () => {
      const found = entries.flatMap(([name, entry]) => {
        if (!("format" in entry) || entry.format !== "Protocol Buffer 3 DescriptorProto") return [];
        const { field, nestedType } = entry.type as unknown as Message;
        return [[name, field.map((one) => fieldText(one, nestedType)).sort()] as const];
      });
      const own = Object.entries(messages).map(([name, text]) => {
        const fields = text === "" ? [] : text.split(",").map(simple);
        return [name, fields.sort()] as const;
      });
      assert.deepEqual(Object.fromEntries(own), Object.fromEntries(found));
    });
  }
});
