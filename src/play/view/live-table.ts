/** What people see while play is attached: a table that is drawn again in place, or plain lines. */
import type { Clock } from "../kubelet/clock.js";
import type { PodEvent } from "../kubelet/events.js";
import type { KubeletListener } from "../kubelet/kubelet.js";
import type { PodStatus } from "../pod-rules/status-types.js";
import type { Manifest, PodKey } from "../manifests/read-manifests.js";
import { type Colour, Painter, type Screen, type TerminalEnvironment, canMove, oneLine } from "./colours.js";
import type { LogLine } from "./follow-logs.js";
import { cutText, formatTable, textWidth } from "./format-table.js";
import { podRows, summarizeNow } from "./pod-table.js";
import type { PullProgress } from "./pull-progress.js";
import type { ShownPod } from "./pod-object.js";
import { statusChanges } from "./status-changes.js";
import { nameOf } from "../manifests/manifest.js";

export interface LiveTableDeps {
  /** In the order of the table. */
  readonly pods: () => readonly ShownPod[];
  /** For the table and for lines about pods: standard error. */
  readonly screen: Screen;
  /** For the output of containers: standard output. */
  readonly output: Screen;
  readonly environment: TerminalEnvironment;
  readonly clock: Clock;
  /** Shown on a terminal only. */
  readonly pulls?: PullProgress;
}

/** Changes within this time are drawn together. */
const drawMs = 50;
/** The ages grow. */
const refreshMs = 1000;
const pendingLimit = 500;

/** To be given to `Kubelet.listen`. Its disposal draws the table a last time and leaves it there. */
export class LiveTable implements KubeletListener, Disposable {
  readonly #statuses = new Map<string, PodStatus>();
  /** The last message of each pod and container: repeated ones are not printed again. */
  readonly #lastMessages = new Map<string, string>();
  readonly #painter: Painter;
  readonly #outputPainter: Painter;
  readonly #isLive: boolean;
  readonly #pulls: Disposable | undefined;
  #pending: { readonly target: Screen; readonly text: string }[] = [];
  /** How wide the lines are that stand on the screen. */
  #drawn: readonly number[] = [];
  #cancelDraw: (() => void) | undefined;
  #cancelRefresh: (() => void) | undefined;
  #isDisposed = false;

  constructor(private readonly deps: LiveTableDeps) {
    const { screen, output, environment } = deps;
    this.#isLive = canMove(screen, environment);
    this.#painter = Painter.for(screen, environment);
    this.#outputPainter = Painter.for(output, environment);
    if (this.#isLive) this.#pulls = deps.pulls?.show(() => this.#drawSoon());
    this.#refresh();
  }

  onEvent({ key, type, message, container = "" }: PodEvent): void {
    const subject = `${nameOf(key)} ${container}`;
    const isRepeated = this.#lastMessages.get(subject) === message;
    this.#lastMessages.set(subject, message);
    if (!isRepeated) this.#say(key, message, type === "Warning");
    this.#drawSoon();
  }

  onStatus({ key }: Manifest, status: PodStatus): void {
    const before = this.#statuses.get(nameOf(key));
    this.#statuses.set(nameOf(key), status);
    for (const { text, isWarning } of statusChanges(before, status)) this.#say(key, text, isWarning);
    this.#drawSoon();
  }

  /** A line of play's own. */
  report(line: string): void {
    this.#print(this.deps.screen, oneLine(line));
  }

  /** A line of a container's output. */
  log({ key, container, text }: LogLine): void {
    const name = this.deps.pods().length > 1 ? `${key.name}/${container}` : container;
    const painter = this.#outputPainter;
    const prefix = painter.paintName(`${nameOf(key)}/${container}`, `${oneLine(name)}:`);
    this.#print(this.deps.output, `${prefix} ${painter.logText(text)}`);
  }

  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#pulls?.[Symbol.dispose]();
    this.#cancelRefresh?.();
    this.#cancelDraw?.();
    this.#draw();
    this.#isDisposed = true;
  }

  /** The table has the last event of each pod, so that only warnings need a line of their own. */
  #say(key: PodKey, text: string, isWarning: boolean): void {
    if (this.#isLive && !isWarning) return;
    const line = `${oneLine(nameOf(key))}: ${oneLine(text)}`;
    this.#print(this.deps.screen, isWarning ? this.#painter.paint("yellow", line) : line);
  }

  /** Above the table. */
  #print(target: Screen, line: string): void {
    if (!this.#isLive || this.#isDisposed) {
      target.write(`${line}\n`);
      return;
    }
    this.#pending.push({ target, text: `${line}\n` });
    if (this.#pending.length >= pendingLimit) this.#draw();
    else this.#drawSoon();
  }

  #drawSoon(): void {
    if (!this.#isLive || this.#isDisposed) return;
    this.#cancelDraw ??= this.deps.clock.after(drawMs, () => this.#draw());
  }

  #refresh(): void {
    if (!this.#isLive) return;
    this.#cancelRefresh = this.deps.clock.after(refreshMs, () => {
      this.#drawSoon();
      this.#refresh();
    });
  }

  #draw(): void {
    this.#cancelDraw?.();
    this.#cancelDraw = undefined;
    if (!this.#isLive) return;
    const { screen } = this.deps;
    const pending = this.#pending;
    this.#pending = [];
    const lines = this.#lines();
    const table = lines.map(({ text }) => `${text}\n`).join("");
    // One write, so that the screen does not flicker; output to another stream is written apart.
    const above = pending.filter(({ target }) => target === screen || target.isTTY === true);
    screen.write(`${this.#erasure()}${above.map(({ text }) => text).join("")}${table}`);
    for (const { target, text } of pending)
      if (target !== screen && target.isTTY !== true) target.write(text);
    this.#drawn = lines.map(({ width }) => width);
  }

  /** Moves to the beginning of the table and clears the rest. A narrower terminal has wrapped long lines. */
  #erasure(): string {
    const columns = columnsOf(this.deps.screen);
    const height = this.#drawn.reduce((sum, width) => sum + Math.max(1, Math.ceil(width / columns)), 0);
    return height === 0 ? "" : `\u001B[${height}A\r\u001B[J`;
  }

  #lines(): readonly { readonly text: string; readonly width: number }[] {
    const { pods, screen, clock, pulls } = this.deps;
    const columns = columnsOf(screen);
    const { shown, note } = fitting(pods(), Math.max(2, (screen.rows ?? 24) - 2));
    if (shown.length === 0) return [];
    const rows = podRows(shown, clock.now(), { messageColumns: columns, progress: (key) => pulls?.of(key) });
    const lines = formatTable(rows).trimEnd().split("\n");
    const start = 2 + Math.max(...rows.map(([pod = ""]) => textWidth(pod)));
    const table = lines.map((line, index) => {
      const plain = cutText(line, columns - 1);
      const pod = shown[index - 1];
      const [, status = ""] = rows[index] ?? [];
      const text = pod === undefined ? plain : this.#coloured(plain, start, start + status.length, pod);
      return { text, width: textWidth(plain) };
    });
    const last = note === undefined ? [] : [cutText(note, columns - 1)];
    return [...table, ...last.map((text) => ({ text, width: textWidth(text) }))];
  }

  #coloured(line: string, start: number, end: number, pod: ShownPod): string {
    const status = line.slice(start, end);
    if (status === "") return line;
    return line.slice(0, start) + this.#painter.paint(colourOf(pod), status) + line.slice(end);
  }
}

function columnsOf({ columns }: Screen): number {
  return columns === undefined || columns < 1 ? 80 : columns;
}

function isFine(pod: ShownPod): boolean {
  if (pod.status?.phase === "Succeeded") return true;
  const { status, readyContainers, containers } = summarizeNow(pod);
  return status === "Running" && readyContainers === containers;
}

function colourOf(pod: ShownPod): Colour {
  const { status } = summarizeNow(pod);
  if (status === "Terminating") return "dim";
  if (isFine(pod)) return "green";
  if (pod.status?.phase === "Failed") return "red";
  return /Err|Error|BackOff|Fail|OOM|Cannot|Exceeded|ExitCode|Unknown|Invalid/.test(status)
    ? "red"
    : "yellow";
}

/** When there are more pods than lines on the screen, those that are not ready come first. */
function fitting(
  pods: readonly ShownPod[],
  lines: number,
): { readonly shown: readonly ShownPod[]; readonly note?: string } {
  if (pods.length < lines) return { shown: pods };
  const sorted = [...pods].sort((left, right) => Number(isFine(left)) - Number(isFine(right)));
  const shown = sorted.slice(0, Math.max(1, lines - 2));
  const rest = sorted.slice(shown.length);
  const unready = rest.filter((pod) => !isFine(pod)).length;
  return { shown, note: `… and ${rest.length} more pods, ${unready} of them not ready` };
}
