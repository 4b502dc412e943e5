/** `dockershim play`, the program, on the shim of a suite. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before } from "node:test";
import { dockerJson, removeContainer } from "./docker.js";
import { CommandProcess, runProgram, type Exit } from "./shim-process.js";
import type { TestBed } from "./test-bed.js";

export class PlayFiles {
  /** Manifests whose pods, or files of pods, may be there. */
  readonly #open = new Set<string>();

  private constructor(private readonly bed: TestBed) {}

  /** What its manifests have made is removed after the suite. The suite has a shim. */
  static ofSuite(bed: TestBed): PlayFiles {
    const files = new PlayFiles(bed);
    before(() => bed.onClose(() => files.#close()));
    return files;
  }

  /** The last word is the path of a manifest. */
  async play(...argv: readonly string[]): Promise<Exit> {
    const path = argv.at(-1) ?? "";
    this.#open.add(path);
    const exit = await runProgram(this.#words(argv));
    if (argv.includes("--down") && exit.code === 0) this.#open.delete(path);
    return exit;
  }

  /** As `play`, while it runs. */
  start(...argv: readonly string[]): CommandProcess {
    this.#open.add(argv.at(-1) ?? "");
    return CommandProcess.start(this.#words(argv));
  }

  /** A file; RUN and IMAGE in it are those of the suite. Names have RUN, so that no pod of a user is touched. */
  async manifest(text: string): Promise<string> {
    const path = join(await this.bed.newDirectory(), "pods.yaml");
    await this.write(path, text);
    return path;
  }

  async write(path: string, text: string): Promise<void> {
    await writeFile(path, text.replaceAll("RUN", this.bed.run).replaceAll("IMAGE", this.bed.image));
  }

  #words(argv: readonly string[]): readonly string[] {
    return ["play", `--endpoint=${this.bed.shim.endpoint}`, ...argv];
  }

  async #close(): Promise<void> {
    for (const path of this.#open) await this.play("--down", path);
    // Containers of play's pods carry no label of the run, but its name.
    const filters = encodeURIComponent(JSON.stringify({ name: [`-${this.bed.run}[_-]`] }));
    const left = (await dockerJson("GET", `/containers/json?all=1&filters=${filters}`)) as { Id: string }[];
    for (const { Id } of left) await removeContainer(Id);
  }
}
