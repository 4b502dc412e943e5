/** The environment of a container from all its sources, in the kubelet's order. Pure. */
import { posix } from "node:path";
import { ShimError } from "../../lib/errors.js";
import type { EnvironmentVariable } from "../manifests/pod-schema.js";
import type { ObjectData, PodObjects } from "../manifests/read-manifests.js";
import { envFileValue } from "./env-file.js";
import { expandVariables } from "./expand-variables.js";
import { type PodFacts, podField, resourceField } from "./pod-fields.js";
import type { PodContainer } from "./resources.js";

export interface EnvironmentInput extends PodFacts {
  readonly container: PodContainer;
  /** Variables that name the Services of the pod's namespace. */
  readonly serviceEnvironment?: ReadonlyMap<string, string>;
  /** The texts of the files that `fileKeyRef` names, by `variableFile`. */
  readonly variableFiles?: ReadonlyMap<string, string>;
}

/** `envFrom`, `env`, then variables of Services that nothing has replaced. Throws `notFound`. */
export function containerEnvironment(input: EnvironmentInput): ReadonlyMap<string, string> {
  const { container, manifest, serviceEnvironment: services = new Map<string, string>() } = input;
  const variables = new Map<string, string>();
  for (const { prefix = "", configMapRef, secretRef } of container.envFrom ?? []) {
    const data =
      configMapRef === undefined
        ? secretRef && objectData("Secret", secretRef, manifest.objects)
        : textData(configMapRef, manifest.objects);
    for (const [key, value] of Object.entries(data ?? {}))
      variables.set(prefix + key, textOf(prefix + key, value));
  }
  const known = { get: (name: string) => variables.get(name) ?? services.get(name) };
  for (const variable of container.env ?? []) {
    const { name, value = "" } = variable;
    const result = value === "" ? valueFrom(variable, input) : expandVariables(value, known);
    if (result !== undefined) variables.set(name, result);
  }
  for (const [name, value] of services) if (!variables.has(name)) variables.set(name, value);
  return variables;
}

/** Undefined when an optional source is missing. */
function valueFrom({ name, valueFrom: from }: EnvironmentVariable, input: EnvironmentInput) {
  if (from === undefined) return "";
  const { objects } = input.manifest;
  if (from.fieldRef !== undefined) return podField(from.fieldRef.fieldPath, input);
  if (from.resourceFieldRef !== undefined)
    return resourceField(from.resourceFieldRef, input, input.container);
  if (from.configMapKeyRef !== undefined) return keyOf("ConfigMap", from.configMapKeyRef, name, objects);
  if (from.secretKeyRef !== undefined) return keyOf("Secret", from.secretKeyRef, name, objects);
  if (from.fileKeyRef !== undefined) return fileValue(from.fileKeyRef, name, input.variableFiles);
  return "";
}

export type FileKeyReference = NonNullable<NonNullable<EnvironmentVariable["valueFrom"]>["fileKeyRef"]>;

/** The name of a file in `variableFiles`. */
export function variableFile({ volumeName, path }: Pick<FileKeyReference, "volumeName" | "path">): string {
  return posix.join(volumeName, path);
}

/** As in the kubelet, a key with an empty value is missing. */
function fileValue(
  reference: FileKeyReference,
  variable: string,
  files: EnvironmentInput["variableFiles"] = new Map<string, string>(),
): string | undefined {
  const { key, optional = false } = reference;
  const file = variableFile(reference);
  let value: string;
  try {
    value = envFileValue(files.get(file) ?? "", key);
  } catch (error) {
    throw ShimError.from(error).within(`set variable "${variable}": read "${file}"`);
  }
  if (value !== "") return value;
  if (optional) return undefined;
  throw new ShimError("notFound", `set variable "${variable}": "${file}" has no key "${key}"`);
}

type ObjectKind = "ConfigMap" | "Secret";

function keyOf(
  kind: ObjectKind,
  reference: { readonly name: string; readonly key: string; readonly optional?: boolean | undefined },
  variable: string,
  objects: PodObjects,
): string | undefined {
  const { name, key, optional = false } = reference;
  const data = kind === "ConfigMap" ? textData(reference, objects) : objectData(kind, reference, objects);
  const value = data !== undefined && Object.hasOwn(data, key) ? data[key] : undefined;
  if (value !== undefined) return textOf(variable, value);
  if (optional) return undefined;
  throw new ShimError("notFound", `set variable "${variable}": ${kind} "${name}" has no key "${key}"`);
}

/** Undefined when it is missing and optional. */
export function objectData(
  kind: ObjectKind,
  { name, optional = false }: { readonly name: string; readonly optional?: boolean | undefined },
  objects: PodObjects,
): ObjectData | undefined {
  const data = kind === "ConfigMap" ? objects.configMaps.get(name) : objects.secrets.get(name)?.data;
  if (data === undefined && !optional)
    throw new ShimError("notFound", `use ${kind} "${name}": it is in none of the files`);
  return data;
}

/** The data of a ConfigMap that can be variables: all but its `binaryData`. */
function textData(
  reference: { readonly name: string; readonly optional?: boolean | undefined },
  objects: PodObjects,
): ObjectData | undefined {
  const data = objectData("ConfigMap", reference, objects);
  const binary = objects.binaryKeys?.get(reference.name) ?? [];
  if (data === undefined || binary.length === 0) return data;
  return Object.fromEntries(Object.entries(data).filter(([key]) => !binary.includes(key)));
}

/** The value itself is in no error: it may be secret. */
function textOf(variable: string, value: Buffer): string {
  const text = value.toString("utf8");
  if (!text.includes("\0") && Buffer.from(text).equals(value)) return text;
  throw new ShimError(
    "invalid",
    `set variable "${variable}": the value is binary: mount it as a volume instead`,
  );
}
