/**
 * Reads the text of statistics from front to back, without a string or an array for each part: a kubelet has some thousand
 * such files read every ten seconds.
 */

const [newline, space, point, zero, nine] = [0x0a, 0x20, 0x2e, 0x30, 0x39];
/** So many digits are exact, summed up one after the other. */
const exactDigits = 15;
/** Counts have no more; version 1 of cgroups writes "unlimited" with 19. */
const mostDigits = 18;

export class TextScanner {
  /** `at` is where the next part begins. */
  constructor(
    private readonly text: string,
    private at = 0,
  ) {}

  /** Whether `literal` comes next; goes behind it then. */
  take(literal: string): boolean {
    if (!this.text.startsWith(literal, this.at)) return false;
    this.at += literal.length;
    return true;
  }

  skipSpaces(): void {
    while (this.text.charCodeAt(this.at) === space) this.at += 1;
  }

  /** Whether the line, or the text, ends here. */
  atLineEnd(): boolean {
    return this.at >= this.text.length || this.text.charCodeAt(this.at) === newline;
  }

  /** Goes to the begin of the next line; false when there is none. */
  nextLine(): boolean {
    const end = this.text.indexOf("\n", this.at);
    this.at = end === -1 ? this.text.length : end + 1;
    return this.at < this.text.length;
  }

  /** Decimal digits; NaN when none comes next. Up to 18 digits it is the nearest double, beyond one beside it. */
  integer(): number {
    const start = this.at;
    return this.#checked(start, this.#digits(0));
  }

  /** As `integer`, with or without digits behind a point. */
  decimal(): number {
    const start = this.at;
    const whole = this.#digits(0);
    if (this.at === start || this.text.charCodeAt(this.at) !== point) return this.#checked(start, whole);
    this.at += 1;
    const fraction = this.at;
    const value = this.#digits(whole);
    let divisor = 1;
    for (let digit = fraction; digit < this.at; digit += 1) divisor *= 10;
    // Of two exact numbers the quotient is the double that is nearest to the text.
    return this.#checked(start, value / divisor);
  }

  /** `value` with the digits that come next behind its own. */
  #digits(value: number): number {
    const { text } = this;
    let sum = value;
    let at = this.at;
    for (; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code < zero || code > nine) break;
      sum = sum * 10 + (code - zero);
    }
    this.at = at;
    return sum;
  }

  /** `value` of the text from `start`, where summing up its digits was exact. */
  #checked(start: number, value: number): number {
    const length = this.at - start;
    if (length === 0) return NaN;
    return length <= exactDigits || length > mostDigits ? value : Number(this.text.slice(start, this.at));
  }
}
