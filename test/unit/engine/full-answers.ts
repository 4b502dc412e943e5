/** What engines answer. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";

const read = (name: string): string => readFileSync(`test/golden/${name}`, "utf8");

type Parts = "State" | "Config" | "NetworkSettings";
export const { container: fullContainer, image: fullImage } = JSON.parse(read("engine-answers.json")) as {
  readonly container: Readonly<Record<Parts, object>>;
  readonly image: { readonly Config: object };
};

/** Errors by kind; those of the engine begin with their HTTP status. */
export const errorTexts = parse(read("engine-errors.yaml")) as Readonly<
  Record<"engine" | "registry", Readonly<Record<string, readonly string[]>>>
>;
