/** Colours of a terminal, and text of pods for it. */
import { shownText } from "../../lib/shown-text.js";

/** What is written to: a stream of the process. */
export interface Screen {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
}

export interface TerminalEnvironment {
  /** Not empty: no colours. */
  readonly NO_COLOR?: string | undefined;
  /** `dumb`: no colours, and no movement of the cursor. */
  readonly TERM?: string | undefined;
}

const codes = { red: 31, green: 32, yellow: 33, dim: 2 } as const;
export type Colour = keyof typeof codes;

/** Numbers of SGR; no red, which stands for errors. */
const nameCodes = [36, 33, 32, 35, 34, 96, 93, 92, 95, 94] as const;

// eslint-disable-next-line no-control-regex -- ESC begins a colour.
const tabOrColour = /(\t|\u001B\[[\d;:]{0,40}m)/;

export function canMove({ isTTY }: Screen, { TERM }: TerminalEnvironment): boolean {
  return isTTY === true && TERM !== "dumb";
}

export class Painter {
  readonly #names = new Map<string, number>();

  constructor(readonly isOn: boolean) {}

  static for(screen: Screen, environment: TerminalEnvironment): Painter {
    return new Painter(canMove(screen, environment) && (environment.NO_COLOR ?? "") === "");
  }

  paint(colour: Colour, text: string): string {
    return this.#wrap(codes[colour], text);
  }

  /** In a colour of its own for each name, in the order in which the names come. */
  paintName(name: string, text: string): string {
    const code = this.#names.get(name) ?? nameCodes[this.#names.size % nameCodes.length] ?? 36;
    this.#names.set(name, code);
    return this.#wrap(code, text);
  }

  /** A line of a container's output. Tabs stay, and colours when this painter has any. */
  logText(text: string): string {
    const parts = text.split(tabOrColour).map((part, index) => {
      if (index % 2 === 0) return shownText(part);
      return part === "\t" || this.isOn ? part : "";
    });
    const shown = parts.join("");
    return shown.includes("\u001B") ? `${shown}\u001B[0m` : shown;
  }

  #wrap(code: number, text: string): string {
    return this.isOn ? `\u001B[${code}m${text}\u001B[0m` : text;
  }
}

/** Text of any origin as one line without what a terminal would act on. */
export function oneLine(text: string): string {
  return shownText(text.replaceAll(/\s*\n\s*/g, " "));
}
